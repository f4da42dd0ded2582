package webhook

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"

	"github.com/pillion-dev/pillion/controller/labels"
	"github.com/pillion-dev/pillion/internal/errtest"
	"github.com/pillion-dev/pillion/templates"
)

const requiredLabel = "pillion.dev/required"

// namespaceWebhook serves the webhook for namespaces, with one template that is required for
// the team payments.
func namespaceWebhook(t testing.TB, change func(*parts)) http.Handler {
	t.Helper()
	template, _, err := templates.Compile([]byte("apiVersion: pillion.dev/v1alpha1\nkind: SidecarTemplate\nmetadata: {name: audit}\n"+
		"spec: {required: true, match: {namespaceSelector: {matchLabels: {team: payments}}}, inject: {metadata: {labels: {a: b}}}}"), templates.Options{})
	errtest.ExpectNone(t, err)
	set := templates.NewSet([]templates.Entry{{Name: "audit", Template: template}})
	proven := func() bool { return true }
	return newFixture(t, change).Handler(NewNamespace(labels.Rules{Excluded: []string{"kube-system"}, Enforcement: labels.EnforceAsked}, proven, func() *templates.Set { return set }))
}

// namespaceReview is the review of a namespace; an object that is empty is left out.
func namespaceReview(operation, name, object, old string) string {
	request := fmt.Sprintf(`"uid":"1","operation":%q,"name":%q,"kind":{"group":"","version":"v1","kind":"Namespace"}`, operation, name)
	if object != "" {
		request += `,"object":` + object
	}
	if old != "" {
		request += `,"oldObject":` + old
	}
	return `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{` + request + `}}`
}

func TestTheLabelsArePutOnInTheSameWrite(t *testing.T) {
	webhook := namespaceWebhook(t, nil)
	object := func(metadata string) string {
		return `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"shop"` + metadata + `},"spec":{}}`
	}
	const deleted = `,"deletionTimestamp":"2026-01-01T00:00:00Z"` // its pods still run
	const selected = `,"labels":{"team":"payments"}`
	const asks = `,"annotations":{"pillion.dev/inject":"logs"}`
	labels := func(injection string, rest string) string {
		return `,"labels":{"pillion.dev/injection":"` + injection + `"` + rest + `}`
	}
	const team, required = `,"team":"payments"`, `,"` + requiredLabel + `":"true"`
	all := labels("enabled", team+required)
	const asked = `"pillion.dev/injection":"enabled",`
	posing := func(injection, rest string) string {
		return `,"labels":{` + injection + `"kubernetes.io/metadata.name":"kube-system"` + rest + `}`
	}
	owned := func(manager, operation, injection string) string {
		return labels(injection, "") + `,"managedFields":[{"manager":"` + manager + `","operation":"` + operation + `","fieldsV1":{"f:metadata":{"f:labels":{"f:pillion.dev/injection":{}}}}}]`
	}
	for why, c := range map[string]struct {
		operation, name, object, old string
		want                         string // the object after the patch; empty if there is none
	}{
		"created, selected":             {"CREATE", "shop", object(selected), "", object(all)},
		"created, asks":                 {"CREATE", "shop", object(asks), "", object(asks + labels("enabled", ""))},
		"created, labels are null":      {"CREATE", "shop", object(`,"labels":null`), "", ""},
		"created, nothing but null":     {"CREATE", "shop", object(`,"labels":null,"annotations":null`), "", ""},
		"excluded":                      {"CREATE", "kube-system", object(selected + asks), "", ""},
		"enforced by Pillion, dropped":  {"UPDATE", "shop", object(asks), object(asks + owned("pillion.dev", "Apply", "enforced")), object(asks + labels("enforced", ""))},
		"enforced in Pillion's name":    {"UPDATE", "shop", object(asks), object(asks + owned("pillion.dev", "Update", "enforced")), object(asks + labels("enabled", ""))},
		"enforced, with bad fields":     {"UPDATE", "shop", object(asks), object(asks + labels("enforced", `},"managedFields":{"a":"b"`)), object(asks + labels("enabled", ""))},
		"taken off while it is deleted": {"UPDATE", "shop", object(deleted + selected), object(deleted + all), object(deleted + all)},
		// With generateName the API server makes the name later, and the label of the name then.
		"named later, selected":                 {"CREATE", "", object(selected), "", object(all)},
		"named later, as a system namespace":    {"CREATE", "", object(posing("", team)), "", object(posing(asked, team+required))},
		"named later, as nobody that is wanted": {"CREATE", "", object(posing("", "")), "", ""},
		"a deletion":                            {"DELETE", "shop", "", object(all), ""},
		"an operation that is unknown":          {"CONNECT", "shop", "", "", ""},
	} {
		r := decodeAnswer(t, postTo(webhook, namespaceReview(c.operation, c.name, c.object, c.old))).Response
		if !r.Allowed || len(r.Warnings) > 0 || len(r.AuditAnnotations) > 0 || (r.Patch == nil) != (c.want == "") {
			t.Errorf("%s: the answer is %+v", why, r)
		} else if c.want != "" && !jsonpatch.Equal(afterPatch(t, c.object, r.Patch), []byte(c.want)) {
			t.Errorf("%s: the patch %s of %s, want %s", why, r.Patch, c.object, c.want)
		}
	}
}

// afterPatch returns an object after a JSON patch.
func afterPatch(t *testing.T, object string, operations []byte) []byte {
	t.Helper()
	patch, err := jsonpatch.DecodePatch(operations)
	if err != nil {
		t.Fatalf("the patch %s: %v", operations, err)
	}
	after, err := patch.Apply([]byte(object))
	if err != nil {
		t.Fatalf("the patch %s of %s: %v", operations, object, err)
	}
	return after
}

// Pillion refuses no namespace: where it has no memory for one, it puts the labels on unread.
func TestANamespaceIsNeverRefused(t *testing.T) {
	webhook := namespaceWebhook(t, func(p *parts) { p.Memory = SideMemoryFor(256 << 20) })
	var labels strings.Builder
	for i := range 50_000 {
		fmt.Fprintf(&labels, `,"l%d":"v"`, i)
	}
	object := `{"metadata":{"name":"shop","labels":{"team":"payments"` + labels.String() + `}}}`
	w := postTo(webhook, namespaceReview("CREATE", "shop", object, ""))
	if r := decodeAnswer(t, w).Response; !r.Allowed || len(r.Patch) == 0 {
		t.Errorf("%+v", r)
	}
	for _, body := range []string{
		namespaceReview("CREATE", "shop", "", ""), namespaceReview("CREATE", "shop", `[]`, ""),
		namespaceReview("CREATE", "shop", `{"metadata":{"labels":{"a":1}}}`, ""), namespaceReview("CREATE", "shop", `{"metadata":{"annotations":[]}}`, ""), strings.Replace(namespaceReview("CREATE", "shop", object, ""), `"kind":"Namespace"`, `"kind":"Pod"`, 1),
	} {
		if w := postTo(webhook, body); w.Code != http.StatusBadRequest {
			t.Errorf("%.200s: HTTP %d %s, want 400", body, w.Code, w.Body)
		}
	}
}

// FuzzNamespaceAnswersAnything posts any bytes to the webhook for namespaces. It refuses
// nothing, and its patch applies and needs no second one.
func FuzzNamespaceAnswersAnything(f *testing.F) {
	for _, labels := range []string{`null`, `{}`, `{"team":"payments"}`, `{"team":"payments","pillion.dev/required":"true"}`, `{"pillion.dev/required":""}`, `{"a":"b","a":"c","TEAM":"payments"}`, `{"team":1}`} {
		object := `{"metadata":{"name":"shop","labels":` + labels + `}}`
		f.Add([]byte(namespaceReview("CREATE", "shop", object, "")))
		f.Add([]byte(namespaceReview("UPDATE", "shop", object, `{"metadata":{"labels":{"team":"payments"}}}`)))
	}
	f.Add([]byte(namespaceReview("UPDATE", "shop", `{}`, `{"metadata":null}`)))
	webhook := namespaceWebhook(f, forgetful(nil))
	f.Fuzz(func(t *testing.T, body []byte) {
		if len(body) > maxFuzzed {
			return
		}
		answer := lawful(t, webhook, body)
		if answer != nil && !answer.Response.Allowed {
			t.Fatalf("refused: %+v", answer.Response)
		}
		again(t, webhook, body, answer)
	})
}

// Without a required template an API server calls Pillion all the same for the pods of a namespace that was not read.
func TestALargeNamespaceIsLabelledWhereNothingIsRequired(t *testing.T) {
	f := newFixture(t, func(p *parts) { p.Memory = SideMemoryFor(256 << 20) })
	webhook := f.Handler(NewNamespace(labels.Rules{}, func() bool { return true }, func() *templates.Set { return templates.NewSet(nil) }))
	object := `{"metadata":{"name":"shop","annotations":{"pillion.dev/inject":"fluent-bit","pad":"` + strings.Repeat("x", 1<<20) + `"}}}`
	r := decodeAnswer(t, postTo(webhook, namespaceReview("CREATE", "shop", object, ""))).Response
	want := `[{"op":"add","path":"/metadata/labels","value":{}},{"op":"add","path":"/metadata/labels/pillion.dev~1injection","value":"enabled"}]`
	if !r.Allowed || !jsonpatch.Equal(r.Patch, []byte(want)) {
		t.Errorf("the patch is %s, want %s", r.Patch, want)
	}
}

// A namespace that finds no room is labelled by what its text has: no name in an annotation stands for a label.
func TestANamespaceThatFindsNoRoomIsLabelledUnread(t *testing.T) {
	webhook := namespaceWebhook(t, func(p *parts) { p.Memory = SideMemoryFor(256 << 20) })
	var many strings.Builder
	for i := range 50_000 {
		fmt.Fprintf(&many, `"a%d":"",`, i)
	}
	pad := many.String() + `"pad":""`
	const both = `"pillion.dev/injection":"enabled","pillion.dev/required":"true"`
	for why, c := range map[string]struct{ name, metadata, want string }{
		"labels":                {"shop", `"labels":{"team":"web"},"annotations":{` + pad + `}`, `{"team":"web",` + both + `}`},
		"no labels":             {"shop", `"annotations":{` + pad + `}`, `{` + both + `}`},
		"null":                  {"shop", `"labels":null,"annotations":{` + pad + `}`, `{` + both + `}`},
		"a hand's value":        {"shop", `"labels":{"pillion.dev/injection":"disabled"},"annotations":{` + pad + `}`, `{"pillion.dev/injection":"disabled","pillion.dev/required":"true"}`},
		"a false value":         {"shop", `"labels":{"pillion.dev/required":"no"},"annotations":{` + pad + `}`, `{` + both + `}`},
		"names in annotations":  {"shop", `"labels":{"team":"web"},"annotations":{"pillion.dev/injection":"enabled","pillion.dev/required":"true",` + pad + `}`, `{"team":"web",` + both + `}`},
		"the last labels count": {"shop", `"labels":{"pillion.dev/injection":"disabled"},"labels":{"team":"web"},"annotations":{` + pad + `}`, `{"team":"web",` + both + `}`},
		"excluded":              {"kube-system", `"labels":{"team":"web"},"annotations":{` + pad + `}`, ""},
	} {
		object := `{"metadata":{"name":"` + c.name + `",` + c.metadata + `}}`
		r := decodeAnswer(t, postTo(webhook, namespaceReview("CREATE", c.name, object, ""))).Response
		if !r.Allowed || (len(r.Patch) == 0) != (c.want == "") {
			t.Errorf("%s: %+v", why, r)
			continue
		}
		if c.want == "" {
			continue
		}
		// An API server patches what it decoded: of several members of one name the last.
		var decoded any
		errtest.ExpectNone(t, json.Unmarshal([]byte(object), &decoded))
		if why == "the last labels count" {
			delete(decoded.(map[string]any)["metadata"].(map[string]any)["labels"].(map[string]any), "pillion.dev/injection")
		}
		text, err := json.Marshal(decoded)
		errtest.ExpectNone(t, err)
		var got struct {
			Metadata struct{ Labels json.RawMessage }
		}
		if err := json.Unmarshal(afterPatch(t, string(text), r.Patch), &got); err != nil || !jsonpatch.Equal(got.Metadata.Labels, []byte(c.want)) {
			t.Errorf("%s: the labels are %s, want %s (%v)", why, got.Metadata.Labels, c.want, err)
		}
	}
}
