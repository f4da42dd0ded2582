package inspect_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata/fake"
	"k8s.io/client-go/rest"

	"github.com/pillion-dev/pillion/controller/usage"
	"github.com/pillion-dev/pillion/injector/reason"
	"github.com/pillion-dev/pillion/inspect"
)

// clusterAt is the cluster of an API server.
func clusterAt(t *testing.T, host string) *inspect.Cluster {
	t.Helper()
	c, err := inspect.Open(&rest.Config{Host: host, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}, inspect.Place{Namespace: "own"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestProofTakesAStatusOrPillionsOwnWarningAndNothingElse(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		status   string   // that the pod comes back with
		warnings []string // of the API server
		proves   string   // "" if it proves nothing
		record   bool     // it comes with it
		say      string   // in the error
	}{
		{name: "an injected pod", status: `{"version":"1","templates":{"side":"1","log":"2"}}`, proves: "a pod in namespace shop came back injected, with log, side", record: true},
		{name: "a record that cannot be read", status: `{`, proves: "a pod in namespace shop came back injected"},
		{name: "a warning with a reason code", warnings: []string{"NoDefaultTemplates: nothing"}, proves: "NoDefaultTemplates: nothing"},
		{name: "a reason code beside others' warnings", warnings: []string{"would violate PodSecurity: x", "Suspended: y"}, proves: "Suspended: y"},
		{name: "nothing at all", say: "caBundle"},
		{name: "somebody else's warning", warnings: []string{`would violate PodSecurity "restricted:latest": x`}, say: "would violate"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if got := r.URL.Query().Get("dryRun"); got != "All" {
					t.Errorf("dryRun=%q: the proof would create a pod", got)
				}
				var pod corev1.Pod
				if err := json.NewDecoder(r.Body).Decode(&pod); err != nil {
					t.Error(err)
				}
				if got := pod.Annotations["side.example.com/inject"]; got != "true" {
					t.Errorf("the pod says %q to inject, want true", got)
				}
				if test.status != "" {
					pod.Annotations["side.example.com/status"] = test.status
				}
				for _, text := range test.warnings {
					encoded, _ := json.Marshal(text)
					w.Header().Add("Warning", "299 - "+string(encoded))
				}
				w.Header().Set("Content-Type", "application/json")
				_ = json.NewEncoder(w).Encode(pod)
			}))
			defer server.Close()
			proven, err := inspect.Proof{Cluster: clusterAt(t, server.URL), In: "shop", Inject: "true", Prefix: "side.example.com"}.Injected(t.Context())
			if test.proves != "" && (err != nil || !strings.HasSuffix(proven.Says, test.proves)) {
				t.Errorf("it says %q (%v), want %q", proven.Says, err, test.proves)
			}
			if got := string(proven.Record); test.record && got != test.status || !test.record && got != "" {
				t.Errorf("the record is %q", got)
			}
			if test.proves == "" && (err == nil || !strings.Contains(err.Error(), "shop") || !strings.Contains(err.Error(), test.say)) {
				t.Errorf("it says %q (%v), want an error with %q", proven.Says, err, test.say)
			}
		})
	}
}

func TestProofTellsPillionsRefusalFromAnothers(t *testing.T) {
	t.Parallel()
	byPillion := reason.UnknownTemplate.Refusal("there is no template of that name")
	byPillion.Message = `admission webhook "requested.pillion.dev" denied the request: ` + byPillion.Message
	inWords := reason.UnknownTemplate.Refusal(byPillion.Message + " (UnknownTemplate)")
	inWords.Details = nil
	for name, c := range map[string]struct {
		status *metav1.Status
		says   string
		not    string
	}{
		"Pillion's":                 {byPillion, "Pillion refuses the pod (UnknownTemplate)", "caBundle"},
		"another webhook's":         {inWords, "creating a pod in namespace shop by dry run", "Pillion refuses"},
		"a webhook does not answer": {&apierrors.NewInternalError(errors.New("failed calling webhook")).ErrStatus, "failed calling webhook", "Pillion refuses"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(int(c.status.Code))
				status := *c.status
				status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
				_ = json.NewEncoder(w).Encode(status)
			}))
			defer server.Close()
			proven, err := inspect.Proof{Cluster: clusterAt(t, server.URL), In: "shop", Inject: "nope", Prefix: "pillion.dev"}.Injected(t.Context())
			if err == nil || proven.Says != "" || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), c.not) {
				t.Errorf("%q, %v; want an error with %q and without %q", proven.Says, err, c.says, c.not)
			}
		})
	}
}

func TestProveTakesTheProofNamespaceOfTheInstallationAndItsTemplate(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		namespaces            []string
		inject                string // by --inject
		sidecar               bool   // the pod comes back with it
		namespace, annotation string // of the pod; empty: there is none
		says                  string
	}{
		"one":                           {[]string{"own-proof"}, "", true, "own-proof", "pillion-proof", "came back injected"},
		"one, and something else asked": {[]string{"own-proof"}, "other", false, "own-proof", "other", "came back injected"},
		"one, without the sidecar":      {[]string{"own-proof"}, "", false, "own-proof", "pillion-proof", "without the sidecar pillion-proof"},
		"none":                          {nil, "", false, "default", "true", "came back injected"},
		"two":                           {[]string{"a-proof", "b-proof"}, "", false, "", "", "a-proof, b-proof"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var namespace, annotation string
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				if r.URL.Path == "/api/v1/namespaces" {
					if got := r.URL.Query().Get("labelSelector"); got != "pillion.dev/proof=true" {
						t.Errorf("the label selector is %q", got)
					}
					list := metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadataList"}}
					for _, name := range c.namespaces {
						list.Items = append(list.Items, metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "meta.k8s.io/v1", Kind: "PartialObjectMetadata"}, ObjectMeta: metav1.ObjectMeta{Name: name}})
					}
					_ = json.NewEncoder(w).Encode(list)
					return
				}
				var pod corev1.Pod
				if err := json.NewDecoder(r.Body).Decode(&pod); err != nil {
					t.Error(err)
				}
				namespace, annotation = strings.Split(r.URL.Path, "/")[4], pod.Annotations["pillion.dev/inject"]
				pod.Annotations["pillion.dev/status"] = "{}"
				if c.sidecar {
					pod.Spec.InitContainers = []corev1.Container{{Name: "pillion-proof"}}
				}
				_ = json.NewEncoder(w).Encode(pod)
			}))
			defer server.Close()
			p := inspect.Proof{Cluster: clusterAt(t, server.URL), Inject: "true", Prefix: "pillion.dev"}
			if c.inject != "" {
				p.Inject = c.inject
			}
			var proven inspect.Proven
			err := p.Find(t.Context(), c.inject != "")
			if err == nil {
				proven, err = p.Injected(t.Context())
			}
			said := proven.Says
			if err != nil {
				said = err.Error()
			}
			if !strings.Contains(said, c.says) || namespace != c.namespace || annotation != c.annotation {
				t.Errorf("a pod of %q that asks for %q, and %q; want %q, %q and %q", namespace, annotation, said, c.namespace, c.annotation, c.says)
			}
		})
	}
}

// refusedAs is the API server's error for a pod that Pillion refuses with a code.
func refusedAs(code string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden,
		Message: `admission webhook "requested.pillion.dev" denied the request: no (` + code + ")",
		Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: metav1.CauseType("pillion.dev/" + code), Message: "no"}}},
	}}
}

func TestATemplateThatNamespacesNameAndThereIsNotIsAnError(t *testing.T) {
	asked := []string{}
	try := func(_ context.Context, template string) error {
		asked = append(asked, template)
		switch template {
		case "gone":
			return refusedAs("UnknownTemplate")
		case "conflicting":
			return refusedAs("Conflict")
		case "insecure":
			return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "x", errors.New("violates PodSecurity"))
		}
		return nil
	}
	proven, err := inspect.TryNamed(t.Context(), map[string][]string{"there": {"a"}, "conflicting": {"a"}, "insecure": {"a"}, "gone": {"shop", "g", "f", "e", "d", "c", "b"}}, try)
	if err == nil || !strings.Contains(err.Error(), "there is no template gone, which these namespaces name, so their pods are refused: b, c, d, e, f and 2 more.") ||
		!strings.Contains(err.Error(), "pillion check has the command") || strings.Count(err.Error(), "there is no template") != 1 {
		t.Errorf("the error is %v", err)
	}
	if want := []string{"gone", "conflicting", "insecure", "there"}; !slices.Equal(asked, want) || len(proven) != 0 {
		t.Errorf("asked for %v, want %v; it says %v", asked, want, proven)
	}
	if proven, err := inspect.TryNamed(t.Context(), map[string][]string{"there": {"a"}}, try); err != nil || proven[0].Says != "every template that namespaces name is there: 1" {
		t.Errorf("%v, %v", err, proven)
	}
}

func TestNotEveryNameIsTried(t *testing.T) {
	named := map[string][]string{}
	for i := range inspect.MostNamed + 3 {
		named[fmt.Sprint("t", i)] = []string{"a"}
	}
	tried := 0
	proven, err := inspect.TryNamed(t.Context(), named, func(context.Context, string) error { tried++; return nil })
	if err != nil || tried != inspect.MostNamed || !strings.HasPrefix(proven[0].Says, "not looked at: 3 of the 503 templates") {
		t.Errorf("%v; %d tried, %v", err, tried, proven)
	}
}

func TestOnlyNamespacesThatPillionWorksForNameTemplates(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	namespace := func(name, value string, labels map[string]string) *metav1.PartialObjectMetadata {
		return &metav1.PartialObjectMetadata{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels, Annotations: map[string]string{"pillion.dev/inject": value}},
		}
	}
	going := namespace("going", "a", nil)
	going.DeletionTimestamp = &metav1.Time{}
	client := fake.NewSimpleMetadataClient(scheme, namespace("shop", "a,b", nil), namespace("cart", "b", nil), namespace("all", "true", nil),
		namespace("kube-system", "a", nil), namespace("off", "a", map[string]string{"pillion.dev/injection": "disabled"}), namespace("bad", "+a", nil), going)
	got, err := inspect.Proof{Cluster: &inspect.Cluster{Names: client}}.NamedBy(t.Context(), usage.Rules{Prefix: "pillion.dev", Excluded: []string{"kube-system"}})
	if err != nil || len(got) != 2 || !slices.Equal(got["a"], []string{"shop"}) || len(got["b"]) != 2 {
		t.Errorf("%v, %v", got, err)
	}
}
