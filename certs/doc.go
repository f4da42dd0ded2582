// Package certs supplies the webhook's serving certificate (the leaf), and publishes the
// certificate authorities (CAs) by which API servers verify the leaf.
//
// In: a connection to Kubernetes, the webhook's Service, the webhook configurations by
// kind and name, and the options of one provider. Out: a [Source], which has a
// GetCertificate for crypto/tls, reports whether API servers can verify that certificate,
// and gives the figures for metrics. Imports: cert-manager, client-go and Prometheus'
// client; nothing else of Pillion.
//
// # Providers
//
//   - [NewSelfSigned]: there is one CA in a Secret, made by the replica that comes first.
//     Every replica signs its own leaf in memory, and publishes the CA.
//   - [NewCertManager]: leaf and CA come from a Secret that cert-manager keeps.
//     Either its cainjector publishes the CA, or this package does.
//   - [NewFiles]: the leaf comes from two files. Somebody else publishes its CA.
//
// # Parts
//
// A source runs one loop: a round after every change, and regularly. Each round asks the provider
// for its newest leaf, and offers that leaf for serving. Each part is a type in the file of its
// name:
//
//	source       connects the parts
//	provider     supplies leaves: selfsigned (with casecret), certmanager, filepair
//	permissions  wait until the process may do what the provider needs
//	publisher    writes the CA bundle into the webhook configurations (publish.go)
//	verifier     checks a leaf against the published bundles, as API servers do
//	serving      has the served leaf; handover decides when to replace it
//	readiness    whether the replica belongs in the Service (methods of source)
//	problems     records the present failures
//
// # Hand-over
//
// A CA is replaced without a moment in which an API server could refuse the leaf. There
// is no leader: the state is in the Secret, every replica computes the same bundle from
// it, and a write that comes too late fails by its resourceVersion.
//
//	current     one CA signs; the bundle is that CA
//	staged      a third of its validity is left: the next CA is in the Secret, and in
//	            the bundle of every entry of every configuration; the old CA signs
//	confirmed   this replica has seen the bundle in all of them
//	settled     that has lasted for the settling time, because not all API servers see
//	            a configuration at the same moment. Now the next CA becomes the current
//	            one, and replicas sign new leaves and serve them
//	pruned      the last leaf of the old CA has ended: the bundle is the new CA
//
// A replica that starts in between signs with the CA that is current then, which API
// servers trust. A Secret that was deleted or damaged is made again from the memory of
// the replicas, with a new CA staged, and goes through the same states.
//
// A CA that somebody else puts into the Secret goes through no staging.
//
// A CA that is replaced before it is due is unwanted: it leaked, or somebody put it into the
// Secret and took it out again. API servers trust it for a brief time, and while a leaf of it
// is in use. The same holds for the replaced CAs of a Secret that was deleted.
//
// # Why the CA is not cert-manager's DynamicAuthority
//
// cert-manager's pkg/util/pki makes the certificates. DynamicAuthority and DynamicSource
// are not used. They sign with a new CA at once. Their certificates are valid from the
// moment of signing, so an API server with a slower clock refuses them. Their keys are
// ECDSA only. Without a permission they wait for ever.
package certs
