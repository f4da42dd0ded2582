// Package certs gives the webhook its serving certificate, and gives API
// servers the certificate authorities (CAs) by which they may trust it.
//
// In: a connection to Kubernetes, the webhook's Service, the name of a Secret
// and the names of MutatingWebhookConfigurations. Out: a [Source]: a
// GetCertificate for crypto/tls, whether the certificate is one that API
// servers can verify by now, and when it ends.
//
// [SelfSigned] is built on cert-manager's DynamicAuthority, which makes and
// renews one CA in the Secret, whichever replica comes first, and on its
// DynamicSource, which lets every replica sign its own leaf in memory. What
// this package adds:
//
//   - The bundle: the Secret also remembers the CAs that the current one
//     replaced, so every replica computes the same bundle from the same object.
//     It is written into the caBundle of every entry of the configurations,
//     without a leader, and put back when somebody edits it.
//   - The order: a leaf of a new CA is served only after the bundle with that
//     CA has been seen back in the configurations, and some time has passed.
//   - Errors in words: a missing permission is named, never waited for.
//
// It may import cert-manager and client-go, and nothing else of Pillion.
package certs
