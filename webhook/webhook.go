package webhook

import "context"

// Webhook answers the reviews that come in under one path.
type Webhook interface {
	// Name identifies the webhook in metrics and logs. It is constant.
	Name() string
	// Review answers one review. A [MalformedError] is a mistake of the sender and
	// becomes HTTP 4xx. Every other error, and a panic, is Pillion's own failure and
	// becomes HTTP 500, so that the failurePolicy decides.
	Review(ctx context.Context, r *Review) (Response, error)
}
