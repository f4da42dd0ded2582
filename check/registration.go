package check

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pillion-dev/pillion/templates"
)

func isNotFound(err error) bool { return apierrors.IsNotFound(err) }

// wanted is an entry as the chart makes it.
type wanted struct {
	name, path string
	policy     admissionv1.FailurePolicyType
	mutating   bool
	// operation and resource are what it is called for; "" is not looked at.
	operation admissionv1.OperationType
	resource  string
	// namespaces says which namespaces it is called for, by the value of their label of
	// injection ("" for none); nil is not looked at. required is the value of the label
	// PREFIX/required that these namespaces have.
	namespaces func(injection string) bool
	required   string
}

// entries returns the entries that the chart makes for these settings.
func (s Settings) entries() []wanted {
	is := func(values ...string) func(string) bool {
		return func(injection string) bool { return slices.Contains(values, injection) }
	}
	open := is("", templates.InjectionEnabled)
	all := []wanted{
		{name: "namespaces", path: "/mutate/namespaces", policy: admissionv1.Ignore, mutating: true, operation: admissionv1.Update, resource: "namespaces", namespaces: func(string) bool { return true }},
		{name: "enforced", path: "/mutate/enforced", policy: admissionv1.Fail, mutating: true, operation: admissionv1.Create, resource: "pods", namespaces: is(templates.InjectionEnforced)},
	}
	requested := wanted{name: "requested", path: "/mutate/requested", policy: admissionv1.Ignore, mutating: true, operation: admissionv1.Create, resource: "pods", namespaces: is(templates.InjectionEnabled)}
	if s.All {
		requested.namespaces = open
	} else {
		all = append(all, wanted{name: "pods", path: "/mutate/pods", policy: admissionv1.Ignore, mutating: true, operation: admissionv1.Create, resource: "pods", namespaces: is("")})
	}
	all = append(all, requested)
	if s.ClusterTemplates {
		all = append(all, wanted{name: "sidecartemplates", path: "/validate-sidecartemplates", policy: admissionv1.Ignore})
	}
	if s.KeepRequired {
		all = append(all,
			wanted{name: "required", path: "/verify/requested", policy: admissionv1.Ignore, operation: admissionv1.Create, resource: "pods", namespaces: open, required: "true"},
			wanted{name: "required-enforced", path: "/verify/enforced", policy: admissionv1.Fail, operation: admissionv1.Create, resource: "pods", namespaces: is(templates.InjectionEnforced), required: "true"})
	}
	if s.Preview {
		preview := wanted{name: "preview", path: "/preview", policy: admissionv1.Ignore, operation: admissionv1.Create, resource: "pods", namespaces: is(templates.InjectionEnabled, templates.InjectionEnforced)}
		if s.All {
			preview.namespaces = is("", templates.InjectionEnabled, templates.InjectionEnforced)
		} else {
			all = append(all, wanted{name: "preview-asked", path: "/preview/asked", policy: admissionv1.Ignore, operation: admissionv1.Create, resource: "pods", namespaces: is("")})
		}
		all = append(all, preview)
	}
	if s.Uninstalls {
		all = append(all, wanted{name: "uninstall", path: "/uninstall", policy: admissionv1.Ignore})
	}
	for i := range all {
		all[i].name += "." + s.Prefix
	}
	return all
}

// own returns the entries of the configurations that Pillion names as its own.
func (s Settings) own(all []Webhook) []Webhook {
	return slices.DeleteFunc(slices.Clone(all), func(w Webhook) bool {
		names := s.Validating
		if w.Mutating {
			names = s.Mutating
		}
		return !slices.Contains(names, w.Configuration)
	})
}

// ours reports whether an entry calls Pillion's Service.
func (s Settings) ours(w Webhook) bool {
	service := w.Client.Service
	return service != nil && service.Namespace == s.Namespace && service.Name == s.Service
}

func configurationsThere(f *Facts, s Settings) ([]Finding, error) {
	all, err := f.Webhooks.get()
	if err != nil {
		return nil, err
	}
	var found []Finding
	for _, mutating := range []bool{true, false} {
		names := s.Validating
		if mutating {
			names = s.Mutating
		}
		for _, name := range names {
			if !slices.ContainsFunc(all, func(w Webhook) bool { return w.Mutating == mutating && w.Configuration == name }) {
				found = append(found, failed(fmt.Sprintf("there is no %s/%s: %s", Webhook{Mutating: mutating}.Kind(), name, map[bool]string{
					true:  "API servers do not call Pillion, and no pod is injected",
					false: "bad templates are not refused, and final pods are not verified",
				}[mutating]), s.restore()...))
			}
		}
	}
	if len(s.Mutating) == 0 {
		found = append(found, failed("the server is told of no MutatingWebhookConfiguration (--webhook-configuration)", fmt.Sprintf("kubectl -n %s get deployments -o yaml", s.Namespace)))
	}
	return found, nil
}

func entriesAsMade(f *Facts, s Settings) ([]Finding, error) {
	all, err := f.Webhooks.get()
	if err != nil {
		return nil, err
	}
	own := s.own(all)
	var found []Finding
	for _, want := range s.entries() {
		place := slices.IndexFunc(own, func(w Webhook) bool { return w.Name == want.name && w.Mutating == want.mutating })
		if place < 0 {
			if names := map[bool][]string{true: s.Mutating, false: s.Validating}[want.mutating]; slices.ContainsFunc(own, func(w Webhook) bool { return slices.Contains(names, w.Configuration) && w.Mutating == want.mutating }) {
				found = append(found, failed(fmt.Sprintf("%s/%s has no entry %s", Webhook{Mutating: want.mutating}.Kind(), strings.Join(names, ", "), want.name), s.replace()))
			}
			continue
		}
		for _, difference := range want.differences(s, own[place]) {
			difference.Says = own[place].String() + " " + difference.Says
			difference.Remedy = []string{s.replace()}
			found = append(found, difference)
		}
	}
	return found, nil
}

// differences returns how an entry is not as the chart makes it, each without its subject.
func (e wanted) differences(s Settings, w Webhook) []Finding {
	var found []Finding
	service := w.Client.Service
	switch {
	case !s.ours(w):
		found = append(found, failed(fmt.Sprintf("does not call the Service %s in namespace %s", s.Service, s.Namespace)))
	case value(service.Port, webhookServicePort) != webhookServicePort:
		found = append(found, failed(fmt.Sprintf("calls the port %d of the Service, want %d", *service.Port, webhookServicePort)))
	case value(service.Path, "") != e.path:
		found = append(found, failed(fmt.Sprintf("calls the path %s, want %s", value(service.Path, "/"), e.path)))
	}
	if w.FailurePolicy != e.policy {
		means := "pods of namespaces that are not enforced are refused while Pillion is down"
		if e.policy == admissionv1.Fail {
			means = "what is enforced is let through while Pillion is down"
		}
		found = append(found, failed(fmt.Sprintf("has failurePolicy %s, want %s: %s", w.FailurePolicy, e.policy, means)))
	}
	if w.MatchPolicy != admissionv1.Equivalent {
		found = append(found, warning(fmt.Sprintf("has matchPolicy %s: requests in another version of the API pass it by", w.MatchPolicy)))
	}
	if e.mutating && w.Once {
		found = append(found, warning("has reinvocationPolicy Never: it is not called again for what a later webhook changes or adds"))
	}
	if e.namespaces == nil {
		return found
	}
	if o := w.ObjectSelector; o != nil && len(o.MatchLabels)+len(o.MatchExpressions) > 0 {
		found = append(found, failed(fmt.Sprintf("has an objectSelector (%s): what it does not select passes it by", metav1.FormatLabelSelector(o))))
	}
	for _, injection := range []string{"", templates.InjectionEnabled, templates.InjectionEnforced, templates.InjectionDisabled} {
		for i, name := range append([]string{"any"}, s.Excluded...) {
			labels := map[string]string{"kubernetes.io/metadata.name": name}
			if injection != "" {
				labels[templates.InjectionLabel(s.Prefix)] = injection
			}
			if e.required != "" {
				labels[templates.RequiredLabel(s.Prefix)] = e.required
			}
			// Names of namespaces themselves are a matter of a condition: the API server sets the label
			// of a name that it makes after it calls webhooks.
			want, calls := (i == 0 || e.resource == "namespaces") && e.namespaces(injection), w.calls(e.operation, e.resource, labels)
			about := "without the label " + templates.InjectionLabel(s.Prefix)
			if injection != "" {
				about = "with the label " + templates.InjectionLabel(s.Prefix) + "=" + injection
			}
			if i > 0 {
				about = name + ", which Pillion keeps out of"
			}
			switch {
			case want && !calls && i > 0:
				return append(found, failed("passes over namespaces by the label kubernetes.io/metadata.name: a new one that says that it is "+name+" gets no label, and its first pods no required sidecar"))
			case want && !calls:
				return append(found, failed(fmt.Sprintf("is not called for the %s of a namespace %s", e.resource, about)))
			case !want && calls:
				return append(found, failed(fmt.Sprintf("is called for the %s of a namespace %s", e.resource, about)))
			}
		}
	}
	return found
}

func bundlesVerify(f *Facts, s Settings) ([]Finding, error) {
	all, err := f.Webhooks.get()
	if err != nil {
		return nil, err
	}
	fix := []string{s.logs()}
	if !s.Publishes {
		fix = []string{s.command("certs list")}
		if s.Provider == "cert-manager" {
			fix = append(fix, "kubectl -n cert-manager logs deployment/cert-manager-cainjector --tail=100")
		}
	}
	var found []Finding
	for _, w := range s.own(all) {
		if !s.ours(w) {
			continue
		}
		cas, lasting := 0, false
		for rest := w.Client.CABundle; ; {
			var block *pem.Block
			if block, rest = pem.Decode(rest); block == nil {
				break
			}
			if ca, err := x509.ParseCertificate(block.Bytes); err == nil {
				cas, lasting = cas+1, lasting || ca.NotAfter.After(f.Now)
			}
		}
		switch {
		case cas == 0:
			found = append(found, failed(fmt.Sprintf("%s has no certificate in its caBundle, so API servers do not trust Pillion; %s", w, s.bundleWriter()), fix...))
		case !lasting:
			found = append(found, failed(fmt.Sprintf("%s has only certificates in its caBundle that are over", w), fix...))
		}
	}
	if len(found) > 0 {
		return found, nil
	}
	running, err := replicas(f)
	if err != nil {
		return nil, err
	}
	for _, r := range running {
		for name, verified := range r.Published {
			if !verified {
				found = append(found, failed(fmt.Sprintf("the caBundle of %s does not verify the certificate of replica %s", name, r.Name), s.command("certs list"), s.logs()))
			}
		}
	}
	slices.SortFunc(found, func(a, b Finding) int { return strings.Compare(a.Says, b.Says) })
	return found, nil
}

// bundleWriter says who writes the caBundles, and so restores them.
func (s Settings) bundleWriter() string {
	switch {
	case s.Publishes:
		return "Pillion restores it within a second if it runs and has the right to"
	case s.Provider == "cert-manager":
		return "cert-manager's cainjector writes it, by the annotation cert-manager.io/inject-ca-from of the configuration"
	}
	return "you write it: the CA of the certificate in the mounted Secret (certs.files.secretName)"
}

// givenSoon is when a certificate ends soon that somebody else has to replace.
const givenSoon = 14 * 24 * time.Hour

func certificatesLast(f *Facts, s Settings) ([]Finding, error) {
	all, err := replicas(f)
	if err != nil {
		return nil, err
	}
	// One that Pillion or cert-manager replaces is replaced when a third of its time is left.
	soon := givenSoon
	if s.Provider != "files" && s.LeafDuration > 0 {
		soon = s.LeafDuration / 6
	}
	var found []Finding
	for _, r := range all {
		if end := r.CertificateEnds; end != nil {
			left := end.Sub(f.Now).Round(time.Second)
			switch {
			case left <= 0:
				found = append(found, failed(fmt.Sprintf("the certificate that replica %s serves ended at %s", r.Name, end.Format(time.RFC3339)), s.command("certs list"), s.logs()))
			case left < soon:
				found = append(found, warning(fmt.Sprintf("the certificate that replica %s serves ends in %s", r.Name, left), s.command("certs list"), s.logs()))
			}
		}
		for _, problem := range r.Problems {
			found = append(found, failed(fmt.Sprintf("replica %s fails at %s; its log says why", r.Name, problem), s.logs()))
		}
	}
	return found, nil
}

func proofHolds(f *Facts, s Settings) ([]Finding, error) {
	if s.ProofNamespace == "" {
		return nil, Nothing("not looked at: Pillion proves nothing with enforcement.mode=Manual; pillion prove does it once")
	}
	all, err := replicas(f)
	if err != nil {
		return nil, err
	}
	var found []Finding
	for _, r := range all {
		switch {
		case len(r.ProofFailing) > 0:
			found = append(found, failed(fmt.Sprintf("the last proof of replica %s failed (%s): a pod that it sent through the API server by dry run did not come back with its sidecar", r.Name, strings.Join(r.ProofFailing, ", ")), s.prove(), s.logs()))
		case r.Proven != nil && !*r.Proven:
			found = append(found, warning(fmt.Sprintf("replica %s has not yet proven that pods come back injected, so it enforces nothing", r.Name), s.prove(), s.logs()))
		}
	}
	return found, nil
}

func (s Settings) prove() string { return "pillion prove" + s.prefixFlag() }
