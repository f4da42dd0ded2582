package main

import (
	"cmp"
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pillion-dev/pillion/clientset"
)

// certificateStatus prints the certificates and webhook configurations. It reports whether
// they are complete: every configuration verifies all its replicas.
func certificateStatus(ctx context.Context, w io.Writer, client clientset.Interface, namespace string, replicas []answers, now time.Time) (bool, error) {
	table := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(table, "REPLICA\tCERTIFICATE ENDS\tCA ENDS\tREPLACED\tBY ANOTHER CA\tFAILURES")
	for _, a := range replicas {
		count := func(name string) string {
			value, ok := a.value("pillion_certificate_" + name)
			if !ok {
				return "unknown"
			}
			return fmt.Sprintf("%.0f", value)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", a.name, a.end("expiry_timestamp_seconds", now), a.end("authority_expiry_timestamp_seconds", now),
			count("rotations_total"), count("handovers_total"), count("failures_total"))
	}
	if err := table.Flush(); err != nil {
		return false, err
	}
	configurations, err := configurationsOf(ctx, client, namespace, replicas)
	if err != nil {
		return false, err
	}
	fmt.Fprintln(table, "\nWEBHOOK CONFIGURATION\tENTRY\tTRUSTED CAS\tVERIFIED BY")
	for _, c := range configurations {
		name := c.String()
		verified, of := c.verified(replicas)
		switch {
		case !c.exists:
			fmt.Fprintf(table, "%s\tnot found\t\t%d of %d replicas\n", name, verified, of)
		case len(c.entries) == 0:
			fmt.Fprintf(table, "%s\tnone calls a Service in %s\t\t%d of %d replicas\n", name, namespace, verified, of)
		}
		for _, e := range c.entries {
			trusted := "none: its caBundle is empty"
			if len(e.client.CABundle) > 0 {
				trusted = fmt.Sprintf("%d", len(trustedCAs(e.client.CABundle)))
			}
			fmt.Fprintf(table, "%s\t%s\t%s\t%d of %d replicas\n", name, e.name, trusted, verified, of)
		}
	}
	if len(configurations) == 0 {
		fmt.Fprintf(table, "none: no replica names a webhook configuration, and no webhook configuration calls a Service in namespace %s\n", namespace)
	}
	if err := table.Flush(); err != nil {
		return false, err
	}
	fmt.Fprintln(w)
	return complete(configurations, replicas), printAuthorities(w, authoritiesOf(configurations, replicas))
}

// complete reports whether every configuration verifies all its replicas.
func complete(configurations []configuration, replicas []answers) bool {
	return len(configurations) > 0 && !slices.ContainsFunc(configurations, func(c configuration) bool {
		verified, of := c.verified(replicas)
		return verified != of || slices.ContainsFunc(c.entries, func(e webhookEntry) bool { return len(trustedCAs(e.client.CABundle)) == 0 })
	})
}

// problems returns the present failures of the replica. The replica may be ready all the
// same.
func (a answers) problems() []string {
	var list []string
	for _, m := range a.metrics["pillion_certificate_problem"].GetMetric() {
		if labels := labelsOf(m); numberOf(m) > 0 {
			list = append(list, labels["operation"]+": "+labels["object"])
		}
	}
	slices.Sort(list)
	return list
}

// end formats the time in a metric, and how far away that time is.
func (a answers) end(name string, now time.Time) string {
	seconds, ok := a.value("pillion_certificate_" + name)
	if !ok || seconds == 0 {
		return "unknown"
	}
	end := time.Unix(int64(seconds), 0).UTC()
	left := end.Sub(now).Round(time.Second)
	if left <= 0 {
		return fmt.Sprintf("%s (over)", end.Format(time.RFC3339))
	}
	return fmt.Sprintf("%s (in %s)", end.Format(time.RFC3339), left)
}

// configuration is a webhook configuration. Its entries are those that call a Service in
// Pillion's namespace.
type configuration struct {
	kind, name string
	exists     bool
	entries    []webhookEntry
}

// String names the configuration as kubectl does.
func (c configuration) String() string { return strings.ToLower(c.kind) + "/" + c.name }

// webhookEntry is one webhook of a configuration.
type webhookEntry struct {
	name   string
	client admissionv1.WebhookClientConfig
}

// published is the metric in which a replica names the configurations that should verify
// its certificate, and says whether they do.
const published = "pillion_certificate_published"

// verified counts the replicas that the configuration verifies, and those that it should
// verify. If some replicas name the configuration, a replica that answers without naming
// the configuration belongs to another release.
func (c configuration) verified(replicas []answers) (verified, of int) {
	if !c.named(replicas) {
		return 0, len(replicas)
	}
	for _, a := range replicas {
		value, ok := a.value(published, "kind="+c.kind, "configuration="+c.name)
		if ok || a.metrics == nil {
			of++
		}
		if value >= 1 {
			verified++
		}
	}
	return verified, of
}

// named reports whether a replica names the configuration.
func (c configuration) named(replicas []answers) bool {
	return slices.ContainsFunc(replicas, func(a answers) bool {
		_, ok := a.value(published, "kind="+c.kind, "configuration="+c.name)
		return ok
	})
}

// configurationsOf returns the configurations that the replicas name, whether they exist or
// not, and all others that call the same Services. If no replica names a configuration, it
// returns all that call a Service in the namespace. They are sorted by kind and name.
func configurationsOf(ctx context.Context, client clientset.Interface, namespace string, replicas []answers) ([]configuration, error) {
	all, err := callers(ctx, client, namespace)
	if err != nil {
		return nil, err
	}
	for _, a := range replicas {
		for _, m := range a.metrics[published].GetMetric() {
			labels := labelsOf(m)
			c := configuration{kind: labels["kind"], name: labels["configuration"]}
			if !slices.ContainsFunc(all, func(other configuration) bool { return other.kind == c.kind && other.name == c.name }) {
				all = append(all, c)
			}
		}
	}
	services, anyNamed := map[string]bool{}, false
	for _, c := range all {
		if !c.named(replicas) {
			continue
		}
		anyNamed = true
		for _, e := range c.entries {
			services[e.client.Service.Name] = true
		}
	}
	all = slices.DeleteFunc(all, func(c configuration) bool {
		calls := slices.ContainsFunc(c.entries, func(e webhookEntry) bool { return !anyNamed || services[e.client.Service.Name] })
		return !c.named(replicas) && !calls
	})
	slices.SortFunc(all, func(a, b configuration) int {
		return cmp.Or(strings.Compare(a.kind, b.kind), strings.Compare(a.name, b.name))
	})
	return all, nil
}

// callers returns all webhook configurations, each with its entries that call a Service in
// the namespace.
func callers(ctx context.Context, client clientset.Interface, namespace string) ([]configuration, error) {
	var all []configuration
	add := func(c *configuration, name string, client admissionv1.WebhookClientConfig) {
		if client.Service != nil && client.Service.Namespace == namespace {
			c.entries = append(c.entries, webhookEntry{name, client})
		}
	}
	mutating, err := client.MutatingWebhookConfigurations().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing mutatingwebhookconfigurations: %w", err)
	}
	for _, object := range mutating.Items {
		c := configuration{kind: "MutatingWebhookConfiguration", name: object.Name, exists: true}
		for _, e := range object.Webhooks {
			add(&c, e.Name, e.ClientConfig)
		}
		all = append(all, c)
	}
	validating, err := client.ValidatingWebhookConfigurations().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing validatingwebhookconfigurations: %w", err)
	}
	for _, object := range validating.Items {
		c := configuration{kind: "ValidatingWebhookConfiguration", name: object.Name, exists: true}
		for _, e := range object.Webhooks {
			add(&c, e.Name, e.ClientConfig)
		}
		all = append(all, c)
	}
	return all, nil
}

// trustedCAs returns the certificates of a caBundle.
func trustedCAs(bundle []byte) []*x509.Certificate {
	var cas []*x509.Certificate
	for {
		var block *pem.Block
		if block, bundle = pem.Decode(bundle); block == nil {
			return cas
		}
		if cert, err := x509.ParseCertificate(block.Bytes); err == nil {
			cas = append(cas, cert)
		}
	}
}
