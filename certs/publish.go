package certs

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// configurations are the webhook configurations that should verify the served leaf.
type configurations struct {
	options     *Options
	list        []*configuration
	permissions *permissions
	problems    *problems
}

// trust reports whether every configuration that exists trusts the CA. It reports false
// while a configuration is unknown.
func (c *configurations) trust(cert *x509.Certificate) bool {
	for _, one := range c.list {
		r, ok := one.get()
		if ok && !r.trusts(cert) || !ok && one.unknown() != nil {
			return false
		}
	}
	return true
}

// published returns the CAs of all caBundles, for a provider that does not write them. l is
// the provider's leaf, nil while there is none.
func (c *configurations) published(l *leaf) authorities {
	var a authorities
	for _, one := range c.list {
		if r, ok := one.get(); ok {
			for _, e := range r.entries {
				a.trusted = append(a.trusted, parseTrusted(e.caBundle)...)
			}
		}
	}
	if l != nil {
		if signing := l.signedBy(a.trusted); signing != nil {
			a.current = &ca{cert: signing}
		}
	}
	return a
}

// publish writes the CA bundle into the caBundle of every entry that calls the Service, and
// into nothing else. Problems are recorded under the configuration.
//
// A replica that has not yet seen the newest CA must not undo the bundle of a replica
// that has. So publish asks for the newest bundle before it writes, and the patch
// applies only to the version of the configuration that was read before the question.
// A bundle can therefore only be replaced by one that is as new or newer.
func (c *configurations) publish(ctx context.Context, s *store) {
	want := s.known.bundle()
	for _, one := range c.list {
		var err error
		if r, ok := one.get(); ok && len(r.outdated(want)) > 0 {
			err = c.publishIn(ctx, one, r, s)
		}
		c.problems.note(one.String(), failedPublish, err)
	}
}

// publishIn writes the newest bundle into one configuration. r is the version of the
// configuration that this replica has seen.
func (c *configurations) publishIn(ctx context.Context, one *configuration, r *registration, s *store) error {
	want, err := s.newestBundle(ctx)
	if err != nil {
		return fmt.Errorf("before publishing the CA bundle: %w", err)
	}
	entries := r.outdated(want)
	if want == nil || len(entries) == 0 {
		return nil
	}
	patch, err := bundlePatch(r, entries, want)
	if err != nil {
		return fmt.Errorf("encoding the patch of %s: %w", one, err)
	}
	err = one.patch(ctx, patch)
	log := c.options.Logger
	if overtaken(err) || apierrors.IsInvalid(err) && !c.refuses(one, r) {
		log.Debug("the bundle was not published: the webhook configuration has changed meanwhile", "configuration", one.String(), "error", err)
		return nil
	}
	if err != nil {
		return fmt.Errorf("publishing the CA bundle: %w", c.permissions.explain(err, "patch", one.Kind.resource(), one.Name))
	}
	log.Info("published the CA bundle", "configuration", one.String(), "entries", len(entries))
	return nil
}

// refuses reports whether a patch that the API server refused as invalid has an unacceptable
// value. The other reason is that the patch's "test" failed, because there is a newer version:
// then this replica soon sees another version than the refused one.
func (c *configurations) refuses(one *configuration, r *registration) bool {
	now := c.options.Now()
	if one.refusedVersion != r.resourceVersion {
		one.refusedVersion, one.refusedSince = r.resourceVersion, now
	}
	return now.Sub(one.refusedSince) > 2*checkInterval
}

// jsonPatchOperation is one operation of RFC 6902.
type jsonPatchOperation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// bundlePatch returns the JSON patch that sets the caBundle of the entries and changes
// nothing else. (An update with the typed object would drop fields that this build
// does not know.) The patch applies only to the version of the configuration in r.
func bundlePatch(r *registration, entries []entry, want []byte) ([]byte, error) {
	patch := []jsonPatchOperation{{Op: "test", Path: "/metadata/resourceVersion", Value: r.resourceVersion}}
	for _, e := range entries {
		// "add" sets a field whether or not the field exists.
		patch = append(patch, jsonPatchOperation{Op: "add", Path: "/webhooks/" + strconv.Itoa(e.index) + "/clientConfig/caBundle", Value: want})
	}
	return json.Marshal(patch)
}

// overtaken reports whether a write failed because another write came first.
func overtaken(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err)
}
