package certs

import (
	"bytes"
	"context"
	"crypto/x509"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// Kind is the kind of a webhook configuration.
type Kind string

// The kinds of webhook configurations.
const (
	Mutating   Kind = "MutatingWebhookConfiguration"
	Validating Kind = "ValidatingWebhookConfiguration"
)

// resource returns the API's resource name of the kind.
func (k Kind) resource() string { return strings.ToLower(string(k)) + "s" }

// WebhookConfiguration names one webhook configuration.
type WebhookConfiguration struct {
	Kind Kind
	Name string
}

// String names the configuration in messages.
func (c WebhookConfiguration) String() string { return strings.ToLower(string(c.Kind)) + " " + c.Name }

// service is the Service by which API servers call the webhook.
type service struct{ namespace, name string }

// dnsName returns the name for which API servers verify the serving certificate.
func (s service) dnsName() string { return s.name + "." + s.namespace + ".svc" }

// dnsNames returns all names of the serving certificate. No other name is permitted to the
// CA's certificates.
func (s service) dnsNames() []string {
	host := s.name + "." + s.namespace
	return []string{s.dnsName(), host + ".svc.cluster.local", host}
}

// entry is one webhook of a configuration.
type entry struct {
	// index is the entry's place in the list of webhooks.
	index    int
	name     string
	caBundle []byte
}

// registration is one version of a webhook configuration, of either kind.
type registration struct {
	WebhookConfiguration
	resourceVersion string

	// entries are the entries that call the Service. Pillion ignores the others.
	entries []entry
}

// add adds an entry if the entry calls the Service.
func (r *registration) add(index int, name string, client *admissionv1.WebhookClientConfig, s service) {
	if client.Service != nil && client.Service.Namespace == s.namespace && client.Service.Name == s.name {
		r.entries = append(r.entries, entry{index, name, client.CABundle})
	}
}

// outdated returns the entries whose caBundle is not want.
func (r *registration) outdated(want []byte) []entry {
	return slices.DeleteFunc(slices.Clone(r.entries), func(e entry) bool { return bytes.Equal(e.caBundle, want) })
}

// publishes reports whether every entry trusts the CA.
func (r *registration) publishes(cert *x509.Certificate) bool {
	return !slices.ContainsFunc(r.entries, func(e entry) bool { return !contains(parseTrusted(e.caBundle), cert) })
}

// configuration follows one webhook configuration. The functions hide the kind of the
// object.
type configuration struct {
	WebhookConfiguration

	// run follows the object until ctx ends.
	run func(ctx context.Context)

	// unknown returns why the object has not been read yet, and nil once it has been read.
	unknown func() error

	// get returns the newest version; false if the object does not exist or is unknown.
	get func() (*registration, bool)

	// patch applies a JSON patch to the object.
	patch func(ctx context.Context, patch []byte) error

	// refused is the version on which the API server refused a patch as invalid. It gives this
	// answer in two cases: the patch's "test" failed because there is a newer version, or it
	// does not accept the value. Then the version stays. rewrite is the version whose bundle has
	// to be written again. Only the publisher uses both.
	refused, rewrite versionAge
}

// configurationFor returns a configuration, with its entries that call the Service.
// changed is called after every change of the object, and must not block.
func configurationFor(client kubernetes.Interface, c WebhookConfiguration, s service, changed func()) *configuration {
	if c.Kind == Mutating {
		return configurationForKind(client, client.AdmissionregistrationV1().MutatingWebhookConfigurations(), c, changed, func(object *admissionv1.MutatingWebhookConfiguration, r *registration) {
			for i := range object.Webhooks {
				r.add(i, object.Webhooks[i].Name, &object.Webhooks[i].ClientConfig, s)
			}
		})
	}
	return configurationForKind(client, client.AdmissionregistrationV1().ValidatingWebhookConfigurations(), c, changed, func(object *admissionv1.ValidatingWebhookConfiguration, r *registration) {
		for i := range object.Webhooks {
			r.add(i, object.Webhooks[i].Name, &object.Webhooks[i].ClientConfig, s)
		}
	})
}

// configurationClient is the part of a typed client that a configuration needs.
type configurationClient[T, L runtime.Object] interface {
	lister[L]
	Patch(ctx context.Context, name string, kind types.PatchType, data []byte, opts metav1.PatchOptions, subresources ...string) (T, error)
}

// configurationForKind is configurationFor for one kind. read adds the entries of an
// object of that kind to the registration.
func configurationForKind[T interface {
	runtime.Object
	metav1.Object
}, L runtime.Object](client kubernetes.Interface, objects configurationClient[T, L], c WebhookConfiguration, changed func(), read func(T, *registration)) *configuration {
	f := newObjectCache[T](client, objects, "", c.Name, changed)
	return &configuration{
		WebhookConfiguration: c, run: f.run, unknown: f.unknown,
		get: func() (*registration, bool) {
			object, ok := f.get()
			if !ok {
				return nil, false
			}
			r := &registration{WebhookConfiguration: c, resourceVersion: object.GetResourceVersion()}
			read(object, r)
			return r, true
		},
		patch: func(ctx context.Context, patch []byte) error {
			_, err := objects.Patch(ctx, c.Name, types.JSONPatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
			return err
		},
	}
}
