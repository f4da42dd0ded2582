package main

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// certificateStatus prints the part of `pillion status` about certificates. It returns
// whether nothing is missing.
func certificateStatus(ctx context.Context, w io.Writer, client kubernetes.Interface, replicas []answers, now time.Time) (bool, error) {
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
	entries, err := webhookEntries(ctx, client)
	if err != nil {
		return false, err
	}
	fmt.Fprintln(table, "\nWEBHOOK CONFIGURATION\tENTRY\tTRUSTED CAS\tVERIFIED BY")
	complete := true
	for _, e := range entries {
		cas := trustedCAs(e.client.CABundle)
		trusted := "none: its caBundle is empty"
		if len(e.client.CABundle) > 0 {
			trusted = fmt.Sprintf("%d", len(cas))
		}
		verified := 0
		for _, a := range replicas {
			if value, ok := a.value("pillion_certificate_published", "kind="+e.kind, "configuration="+e.configuration); ok && value == 1 {
				verified++
			}
		}
		complete = complete && verified == len(replicas) && len(cas) > 0
		fmt.Fprintf(table, "%s/%s\t%s\t%s\t%d of %d replicas\n", strings.ToLower(e.kind), e.configuration, e.name, trusted, verified, len(replicas))
	}
	if len(entries) == 0 {
		complete = false
		fmt.Fprintf(table, "none: no webhook configuration has the label %s\n", ownLabel)
	}
	return complete, table.Flush()
}

// end is the time that a metric gives, and how far away it is.
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

// webhookEntry is one webhook of a configuration.
type webhookEntry struct {
	kind, configuration, name string
	client                    admissionv1.WebhookClientConfig
}

// webhookEntries are those of the configurations that the chart made.
func webhookEntries(ctx context.Context, client kubernetes.Interface) ([]webhookEntry, error) {
	api, own := client.AdmissionregistrationV1(), metav1.ListOptions{LabelSelector: ownLabel}
	var entries []webhookEntry
	mutating, err := api.MutatingWebhookConfigurations().List(ctx, own)
	if err != nil {
		return nil, fmt.Errorf("listing mutatingwebhookconfigurations: %w", err)
	}
	for _, c := range mutating.Items {
		for _, e := range c.Webhooks {
			entries = append(entries, webhookEntry{"MutatingWebhookConfiguration", c.Name, e.Name, e.ClientConfig})
		}
	}
	validating, err := api.ValidatingWebhookConfigurations().List(ctx, own)
	if err != nil {
		return nil, fmt.Errorf("listing validatingwebhookconfigurations: %w", err)
	}
	for _, c := range validating.Items {
		for _, e := range c.Webhooks {
			entries = append(entries, webhookEntry{"ValidatingWebhookConfiguration", c.Name, e.Name, e.ClientConfig})
		}
	}
	return entries, nil
}

// trustedCAs are the certificates of a caBundle.
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
