package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pillion-dev/pillion/inspect"
	"github.com/pillion-dev/pillion/inspect/check"
	"github.com/pillion-dev/pillion/inspect/state"
)

// writeCertificates writes the certificates and webhook configurations. Namespace is Pillion's own.
func (r statusReport) writeCertificates(out *strings.Builder, namespace string, now time.Time) {
	var replicas, configurations []string
	for _, a := range r.Replicas {
		c := a.Certificates
		count := func(n int) string {
			if !a.Answers {
				return "unknown"
			}
			return fmt.Sprint(n)
		}
		replicas = append(replicas, fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%s", a.Name, end(c.Ends, now), end(c.AuthorityEnds, now), count(c.Rotations), count(c.Handovers), count(c.Failures)))
	}
	for _, c := range r.Configurations {
		verified := fmt.Sprintf("%d of %d replicas", c.VerifiedBy, c.Replicas)
		switch {
		case !c.Exists:
			configurations = append(configurations, fmt.Sprintf("%s\tnot found\t\t%s", c, verified))
		case len(c.Entries) == 0:
			configurations = append(configurations, fmt.Sprintf("%s\tnone calls a Service in %s\t\t%s", c, namespace, verified))
		}
		for _, e := range c.entries {
			trusted := "none: its caBundle is empty"
			if len(e.ClientConfig.CABundle) > 0 {
				trusted = fmt.Sprint(c.TrustedCAs[e.Name])
			}
			configurations = append(configurations, fmt.Sprintf("%s\t%s\t%s\t%s", c, e.Name, trusted, verified))
		}
	}
	if len(r.Configurations) == 0 {
		configurations = []string{"none: no replica names a webhook configuration, and no webhook configuration calls a Service in namespace " + namespace}
	}
	inspect.WriteTable(out, "REPLICA\tCERTIFICATE ENDS\tCA ENDS\tREPLACED\tBY ANOTHER CA\tFAILURES", replicas)
	inspect.WriteTable(out, "\nWEBHOOK CONFIGURATION\tENTRY\tTRUSTED CAS\tVERIFIED BY", configurations)
	out.WriteByte('\n')
	writeAuthorities(out, authoritiesOf(r.Configurations, r.Replicas))
}

// complete reports whether every configuration verifies all its replicas.
func complete(configurations []configuration) bool {
	return len(configurations) > 0 && !slices.ContainsFunc(configurations, func(c configuration) bool {
		return c.VerifiedBy != c.Replicas || slices.Contains(slices.Collect(maps.Values(c.TrustedCAs)), 0)
	})
}

// end formats the end of a certificate, and how far away it is.
func end(end *time.Time, now time.Time) string {
	if end == nil {
		return "unknown"
	}
	left := end.Sub(now).Round(time.Second)
	if left <= 0 {
		return fmt.Sprintf("%s (over)", end.Format(time.RFC3339))
	}
	return fmt.Sprintf("%s (in %s)", end.Format(time.RFC3339), left)
}

// configuration is a webhook configuration. Its entries are those that call a Service in
// Pillion's namespace.
type configuration struct {
	Kind   string `json:"kind"`
	Name   string `json:"name"`
	Exists bool   `json:"exists"`
	// VerifiedBy counts the replicas that the configuration verifies, Replicas those that it should verify.
	VerifiedBy int      `json:"verifiedBy"`
	Replicas   int      `json:"replicas"`
	Entries    []string `json:"entries"`
	// TrustedCAs counts the certificates in the caBundle of each entry.
	TrustedCAs map[string]int `json:"trustedCAs"`

	entries []admissionv1.MutatingWebhook // validating ones have no other fields
}

// String names the configuration as kubectl does.
func (c configuration) String() string { return strings.ToLower(c.Kind) + "/" + c.Name }

// verify counts the replicas. If some replicas name the configuration, a replica that answers without
// naming the configuration belongs to another release.
func (c *configuration) verify(replicas []state.Replica) {
	if !c.named(replicas) {
		c.Replicas = len(replicas)
		return
	}
	for _, a := range replicas {
		published, named := a.Certificates.Configuration(c.Kind, c.Name)
		if named || !a.Answers {
			c.Replicas++
		}
		if published.Verifies {
			c.VerifiedBy++
		}
	}
}

// named reports whether a replica names the configuration.
func (c configuration) named(replicas []state.Replica) bool {
	return slices.ContainsFunc(replicas, func(a state.Replica) bool {
		_, named := a.Certificates.Configuration(c.Kind, c.Name)
		return named
	})
}

// calls reports whether an entry of the configuration calls one of the Services.
func (c configuration) calls(service func(name string) bool) bool {
	return slices.ContainsFunc(c.entries, func(w admissionv1.MutatingWebhook) bool { return service(w.ClientConfig.Service.Name) })
}

// configurationsOf returns the configurations that the replicas name, whether they exist or
// not, and all others that call the same Services. If no replica names a configuration, it
// returns all that call a Service in the namespace. They are sorted by kind and name.
func configurationsOf(ctx context.Context, cluster *inspect.Cluster, replicas []state.Replica) ([]configuration, error) {
	var all []configuration
	of := func(kind, name string) *configuration {
		i := slices.IndexFunc(all, func(c configuration) bool { return c.Kind == kind && c.Name == name })
		if i < 0 {
			all, i = append(all, configuration{Kind: kind, Name: name, Entries: []string{}, TrustedCAs: map[string]int{}}), len(all)
		}
		return &all[i]
	}
	for _, kind := range []string{"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"} {
		found, err := inspect.List[admissionv1.MutatingWebhookConfiguration](ctx, cluster, admissionv1.SchemeGroupVersion.WithResource(strings.ToLower(kind)+"s"), "", metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		for _, read := range found {
			c := of(kind, read.Name)
			c.Exists = true
			for _, w := range read.Webhooks {
				if service := w.ClientConfig.Service; service != nil && service.Namespace == cluster.Namespace {
					c.entries, c.Entries = append(c.entries, w), append(c.Entries, w.Name)
					c.TrustedCAs[w.Name] = len(check.TrustedCAs(w.ClientConfig.CABundle))
				}
			}
		}
	}
	for _, a := range replicas {
		for _, p := range a.Certificates.Published {
			of(p.Kind, p.Name)
		}
	}
	named := func(service string) bool {
		return slices.ContainsFunc(all, func(c configuration) bool {
			return c.named(replicas) && c.calls(func(name string) bool { return name == service })
		})
	}
	if !slices.ContainsFunc(all, func(c configuration) bool { return c.named(replicas) }) {
		named = func(string) bool { return true }
	}
	ours := slices.DeleteFunc(slices.Clone(all), func(c configuration) bool { return !c.named(replicas) && !c.calls(named) })
	slices.SortFunc(ours, func(a, b configuration) int {
		return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Name, b.Name))
	})
	for i := range ours {
		ours[i].verify(replicas)
	}
	return ours, nil
}
