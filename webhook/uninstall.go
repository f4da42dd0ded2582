package webhook

import (
	"context"
	"time"

	"github.com/pillion-dev/pillion/controller/uninstall"
)

const (
	// uninstallReviews is how many reviews wait for labels to be removed at the same time.
	uninstallReviews = 4
	// markerDelay is how much later than the review the watch may deliver the marker.
	markerDelay = 2 * time.Second
	// sweepWait is how long a review without a deadline waits.
	sweepWait = 5 * time.Second
)

// uninstallWebhook holds up Helm while Pillion's labels are removed from namespaces. Helm creates the marker
// first, and then an object whose review is answered when the labels are removed, or when the API server is about
// to stop waiting. So Helm waits for as long as one review takes, and not at all where no replica answers.
type uninstallWebhook struct {
	uninstall *uninstall.Uninstall
	// waiting has an element for each review that waits.
	waiting chan struct{}
}

// NewUninstall returns the webhook of a release's removal.
func NewUninstall(u *uninstall.Uninstall) Webhook {
	return uninstallWebhook{u, make(chan struct{}, uninstallReviews)}
}

// Name implements [Webhook].
func (uninstallWebhook) Name() string { return "uninstall" }

// Review implements [Webhook]. It refuses nothing. Everybody who reaches the port can send such a review, so it
// does nothing without the marker.
func (w uninstallWebhook) Review(ctx context.Context, r *Review) (Response, error) {
	if r.DryRun {
		return Allowed(), nil
	}
	select {
	case w.waiting <- struct{}{}:
		defer func() { <-w.waiting }()
	default:
		return Allowed(), nil
	}
	select {
	case <-w.uninstall.Begun():
	case <-ctx.Done():
		return Allowed(), nil
	case <-time.After(markerDelay):
		return Allowed(), nil
	}
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(sweepWait)
	}
	select {
	case <-w.uninstall.Sweep(ctx):
	case <-ctx.Done():
	case <-time.After(time.Until(deadline) - uninstall.Settle): // the answer takes time, too
	}
	return Allowed(), nil
}

// unlessUninstalled changes nothing once the release is being removed.
type unlessUninstalled struct {
	Webhook
	uninstall *uninstall.Uninstall
}

// UnlessUninstalled returns a webhook that changes nothing once the release is being removed.
func UnlessUninstalled(w Webhook, u *uninstall.Uninstall) Webhook {
	return unlessUninstalled{w, u}
}

// Review implements [Webhook].
func (w unlessUninstalled) Review(ctx context.Context, r *Review) (Response, error) {
	if w.uninstall.HasBegun() {
		return Allowed(), nil
	}
	return w.Webhook.Review(ctx, r)
}
