package check

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pillion-dev/pillion/templates/podschema"
)

func isNotFound(err error) bool { return apierrors.IsNotFound(err) }

// own returns the entries of the configurations that Pillion names as its own.
func (s Settings) own(all []Webhook) []Webhook {
	return slices.DeleteFunc(slices.Clone(all), func(w Webhook) bool { return !slices.Contains(s.configurations(w.Mutating), w.Configuration) })
}

// configurations returns the names of Pillion's configurations, of one kind.
func (s Settings) configurations(mutating bool) []string {
	if mutating {
		return s.Mutating
	}
	return s.Validating
}

// ours reports whether an entry calls Pillion's Service.
func (s Settings) ours(w Webhook) bool {
	service := w.ClientConfig.Service
	return service != nil && service.Namespace == s.Namespace && service.Name == s.Service
}

func configurationsThere(f *Facts, s Settings) []Finding {
	all := f.Webhooks.Value
	var found []Finding
	for _, mutating := range []bool{true, false} {
		for _, name := range s.configurations(mutating) {
			if !slices.ContainsFunc(all, func(w Webhook) bool { return w.Mutating == mutating && w.Configuration == name }) {
				found = append(found, failed(fmt.Sprintf("there is no %s/%s: %s", Webhook{Mutating: mutating}.Kind(), name, map[bool]string{
					true:  "API servers do not call Pillion, and no pod is injected",
					false: "bad templates are not refused, and final pods are not verified",
				}[mutating]), s.restore()...))
			}
		}
	}
	if len(s.Mutating) == 0 {
		found = append(found, failed("the server does not know its MutatingWebhookConfiguration (--webhook-configuration)", fmt.Sprintf("kubectl -n %s get deployments -o yaml", s.Namespace)))
	}
	return found
}

// entriesAsMade compares all entries with those that the chart renders, field by field.
func entriesAsMade(f *Facts, s Settings) []Finding {
	all := f.Webhooks.Value
	rendered, err := f.Rendered.Value, f.Rendered.Err
	if isNotFound(err) {
		return []Finding{failed(fmt.Sprintf("the ConfigMap %s-webhooks is missing in namespace %s. It has the webhook configurations as the chart renders them, so edits cannot be found", s.Service, s.Namespace), s.restore()...)}
	}
	if err != nil {
		return []Finding{unread(err)}
	}
	var found []Finding
	for _, want := range rendered {
		place := slices.IndexFunc(all, want.named)
		if place >= 0 {
			for _, d := range differences("", all[place].compared(), want.compared()) {
				found = append(found, failed(fmt.Sprintf("%s %s", want, d.says(want)), s.replace()))
			}
		} else if slices.ContainsFunc(all, want.beside) {
			found = append(found, failed(fmt.Sprintf("%s/%s has no entry %s, so Pillion is not called for it", want.Kind(), want.Configuration, want.Name), s.replace()))
		}
	}
	for i, w := range all {
		calls := func(other Webhook) bool { return other.beside(w) && s.ours(other) }
		switch {
		case w.Name == "" || slices.ContainsFunc(rendered, w.named):
		case slices.ContainsFunc(rendered, w.beside):
			found = append(found, failed(fmt.Sprintf("%s is not part of the chart: through it API servers call %s", w, podschema.Encode(w.compared()["clientConfig"])), s.replace()))
		case s.ours(w) && !slices.Contains(s.configurations(w.Mutating), w.Configuration) && !slices.ContainsFunc(all[:i], calls):
			found = append(found, failed(fmt.Sprintf("%s/%s is not part of the chart, and its entry %s calls Pillion: Pillion is called twice or for more pods, and nobody renews the caBundle", w.Kind(), w.Configuration, w.Name), s.withoutCopy(all, w)...))
		}
	}
	return found
}

// named reports whether two entries are the same one, by their names.
func (w Webhook) named(other Webhook) bool { return w.beside(other) && w.Name == other.Name }

// beside reports whether two entries are of one configuration.
func (w Webhook) beside(other Webhook) bool {
	return w.Mutating == other.Mutating && w.Configuration == other.Configuration
}

// withoutCopy are the commands that take a configuration away that is not the chart's. The chart's
// own come first: this one may be what pods get their sidecars by. One that calls others, too, is
// its owner's to change.
func (s Settings) withoutCopy(all []Webhook, w Webhook) []string {
	if slices.ContainsFunc(all, func(other Webhook) bool { return other.beside(w) && !s.ours(other) }) {
		return []string{fmt.Sprintf("kubectl edit %s %s", w.Kind(), w.Configuration)}
	}
	return append(s.restore(), s.replace(), fmt.Sprintf("kubectl delete %s %s", w.Kind(), w.Configuration))
}

// ofAKS are the requirements that Azure's admissions enforcer adds to every namespaceSelector, and
// adds again: https://learn.microsoft.com/azure/aks/faq.
var ofAKS = []metav1.LabelSelectorRequirement{
	{Key: "control-plane", Operator: metav1.LabelSelectorOpDoesNotExist},
	{Key: "control-plane", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"true"}},
	{Key: "kubernetes.azure.com/managedby", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"aks"}},
}

// compared is an entry as JSON, without the caBundle, which is set at run time, and without what AKS adds.
func (w Webhook) compared() map[string]any {
	w.ClientConfig.CABundle = nil
	w.NamespaceSelector = w.NamespaceSelector.DeepCopy()
	if w.NamespaceSelector != nil {
		w.NamespaceSelector.MatchExpressions = slices.DeleteFunc(w.NamespaceSelector.MatchExpressions, func(r metav1.LabelSelectorRequirement) bool {
			return slices.ContainsFunc(ofAKS, func(added metav1.LabelSelectorRequirement) bool { return reflect.DeepEqual(r, added) })
		})
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&w.MutatingWebhook)
	if err != nil {
		return map[string]any{"error": err.Error()} // no type of the API gives one
	}
	return fields
}

// difference is a field of an entry that is not as the chart renders it.
type difference struct {
	field       string
	there, want any
}

// differences returns the deepest fields that differ. Conditions are found by their names; items of
// other lists by their places, where as many are there as there should be.
func differences(field string, there, want any) []difference {
	if reflect.DeepEqual(there, want) {
		return nil
	}
	a, b := parts(there), parts(want)
	if _, list := want.([]any); a == nil || b == nil || list && len(a) != len(b) && field != "matchConditions" {
		return []difference{{field, there, want}}
	}
	for key := range a {
		if _, ok := b[key]; !ok {
			b[key] = nil
		}
	}
	var all []difference
	for _, key := range slices.Sorted(maps.Keys(b)) {
		all = append(all, differences(strings.TrimPrefix(field+key, "."), a[key], b[key])...)
	}
	return all
}

// parts returns what a value of JSON consists of, by the end of its field's name; nil if it has no parts.
func parts(v any) map[string]any {
	all := map[string]any{}
	switch v := v.(type) {
	case map[string]any:
		for key, part := range v {
			all["."+key] = part
		}
	case []any:
		for i, part := range v {
			key := strconv.Itoa(i)
			if item, ok := part.(map[string]any); ok && item["name"] != nil {
				key = fmt.Sprint(item["name"])
			}
			all["["+key+"]"] = part
		}
	default:
		return nil
	}
	return all
}

// says is the end of a sentence about the entry that the chart renders so.
func (d difference) says(rendered Webhook) string {
	there, want := shown(d.there, d.want)
	text := fmt.Sprintf("has %s %s, and the chart renders %s", d.field, there, want)
	switch {
	case d.there == nil:
		text = fmt.Sprintf("has no %s, and the chart renders %s", d.field, want)
	case d.want == nil:
		text = fmt.Sprintf("has %s %s, and the chart renders none", d.field, there)
	}
	return text + ": " + d.means(rendered)
}

// shown returns two values as JSON, each cut to what is around the first difference.
func shown(a, b any) (string, string) {
	const most, before = 100, 30
	x, y := []rune(string(podschema.Encode(a))), []rune(string(podschema.Encode(b)))
	same := 0
	for same < min(len(x), len(y)) && x[same] == y[same] {
		same++
	}
	around := func(text []rune) string {
		if len(text) <= most {
			return string(text)
		}
		from := max(0, same-before)
		to := min(len(text), from+most)
		return strings.Repeat("…", min(from, 1)) + string(text[from:to]) + strings.Repeat("…", min(len(text)-to, 1))
	}
	return around(x), around(y)
}

// means says what follows from the difference.
func (d difference) means(rendered Webhook) string {
	field := d.field[:strings.IndexAny(d.field+".", ".[")]
	switch {
	case field == "failurePolicy" && rendered.fails():
		return "pods of enforced namespaces are let through while Pillion is down"
	case field == "failurePolicy":
		return "pods of namespaces that are not enforced are refused while Pillion is down"
	case slices.Contains([]string{"clientConfig", "timeoutSeconds", "reinvocationPolicy", "sideEffects", "admissionReviewVersions"}, field):
		return "API servers do not call Pillion as the chart sets it up"
	case strings.HasPrefix(rendered.Name, "required"):
		return "final pods that it leaves out are not verified"
	case strings.HasPrefix(rendered.Name, "namespaces."):
		return "namespaces that it leaves out get Pillion's labels late"
	case rendered.Mutating:
		return "pods that it leaves out are not injected"
	}
	return "Pillion does not check the objects that it leaves out"
}

func bundlesVerify(f *Facts, s Settings) []Finding {
	all := f.Webhooks.Value
	fix := []string{s.logs()}
	if !s.Publishes && s.Provider == "cert-manager" {
		fix = append(fix, "kubectl -n cert-manager logs deployment/cert-manager-cainjector --tail=100")
	}
	var found []Finding
	for _, w := range s.own(all) {
		if !s.ours(w) {
			continue
		}
		cas := TrustedCAs(w.ClientConfig.CABundle)
		switch {
		case len(cas) == 0:
			found = append(found, failed(fmt.Sprintf("%s has no certificate in its caBundle, so API servers do not trust Pillion; %s", w, s.bundleWriter()), fix...))
		case !slices.ContainsFunc(cas, func(ca *x509.Certificate) bool { return ca.NotAfter.After(f.Now) }):
			found = append(found, failed(fmt.Sprintf("%s has only expired certificates in its caBundle", w), fix...))
		}
	}
	if len(found) > 0 {
		return found
	}
	if err := answering(f); err != nil {
		return []Finding{unread(err)}
	}
	for _, r := range f.answering() {
		for _, p := range r.Certificates.Published {
			if !p.Verifies {
				found = append(found, failed(fmt.Sprintf("the caBundle of %s/%s does not verify the certificate of replica %s", strings.ToLower(p.Kind), p.Name, r.Name), s.logs()))
			}
		}
	}
	slices.SortFunc(found, func(a, b Finding) int { return strings.Compare(a.Says, b.Says) })
	return found
}

// TrustedCAs returns the certificates of a caBundle.
func TrustedCAs(bundle []byte) []*x509.Certificate {
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

func certificatesLast(f *Facts, s Settings) []Finding {
	all := f.answering()
	// One that Pillion or cert-manager replaces is replaced when a third of its time is left.
	soon := givenSoon
	if s.Provider != "files" && s.LeafDuration > 0 {
		soon = s.LeafDuration / 6
	}
	var found []Finding
	for _, r := range all {
		if end := r.Certificates.Ends; end != nil {
			left := end.Sub(f.Now).Round(time.Second)
			switch {
			case left <= 0:
				found = append(found, failed(fmt.Sprintf("the certificate that replica %s serves ended at %s", r.Name, end.Format(time.RFC3339)), s.logs()))
			case left < soon:
				found = append(found, warning(fmt.Sprintf("the certificate that replica %s serves ends in %s", r.Name, left), s.logs()))
			}
		}
		for _, problem := range r.Problems() {
			found = append(found, failed(fmt.Sprintf("replica %s fails at %s; its log says why", r.Name, problem), s.logs()))
		}
	}
	return found
}

func proofHolds(f *Facts, s Settings) []Finding {
	if s.ProofNamespace == "" {
		return skipped("not looked at: Pillion proves nothing with enforcement=None")
	}
	if err := answering(f); err != nil {
		return []Finding{unread(err)}
	}
	var found []Finding
	for _, r := range f.answering() {
		if r.EnforcementProven != nil && !*r.EnforcementProven {
			found = append(found, failed(fmt.Sprintf("replica %s has not proven that pods come back injected, so it enforces no more namespaces; its log has the API server's answer", r.Name), s.logs()))
		}
	}
	return found
}
