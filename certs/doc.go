// Package certs gives the webhook its serving certificate (the leaf), and gives
// API servers the certificate authorities (CAs) by which they may trust it.
//
// In: a connection to Kubernetes, the webhook's Service, the webhook
// configurations by kind and name, and what one of three providers needs. Out: a
// [Source]: a GetCertificate for crypto/tls, whether API servers can verify that
// certificate by now, and figures for metrics.
//
//   - [NewSelfSigned]: one CA in a Secret, made by whichever replica comes first;
//     every replica signs its own leaf in memory, and publishes the CA.
//   - [NewCertManager]: leaf and CA come from a Secret that cert-manager keeps.
//     Its cainjector publishes the CA, or this package does.
//   - [NewFiles]: the leaf comes from two files; somebody else publishes its CA.
//
// # Hand-over
//
// A CA is replaced without a moment in which an API server could refuse the leaf.
// There is no leader: the state is in the Secret, every replica computes the same
// from it, and a write that comes too late fails by its resourceVersion.
//
//	current     one CA signs; the bundle is that CA
//	staged      a third of its validity is left: the next CA is in the Secret, and in
//	            the bundle of every entry of every configuration; the old one signs
//	confirmed   this replica has seen the bundle back in all of them
//	settled     that has lasted for the settling time: API servers do not all see a
//	            configuration at the same moment. Now the next CA becomes the current
//	            one, replicas sign new leaves and serve them
//	pruned      the last leaf of the old CA has ended: the bundle is the new CA
//
// A replica that starts in between signs with the CA that is current then, which
// API servers trust. A Secret that was deleted or damaged is made again from what
// the replicas remember, with a new CA staged: the same states.
//
// # Why the CA is not cert-manager's DynamicAuthority
//
// Certificates are made by cert-manager's pkg/util/pki. DynamicAuthority and
// DynamicSource are not used: they begin to sign with a new CA at once, their
// certificates begin to be valid at the moment of signing, which an API server
// with a slower clock refuses, their keys are ECDSA only, and without a
// permission they wait for ever.
//
// It may import cert-manager, client-go and Prometheus' client, and nothing else
// of Pillion.
package certs
