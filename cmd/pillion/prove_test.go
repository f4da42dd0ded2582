package main

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/pillion-dev/pillion/injector/reason"
)

func TestProofTakesAStatusOrPillionsOwnWarningAndNothingElse(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		status   string   // that the pod comes back with
		warnings []string // of the API server
		proves   string   // "" if it proves nothing
		say      string   // in the error
	}{
		{name: "an injected pod", status: `{"a":1}`, proves: `injected: {"a":1}`},
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
			var out strings.Builder
			err := proveCommand{namespace: "shop", inject: "true", prefix: "side.example.com"}.run(t.Context(),
				&rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}, &out)
			if test.proves != "" && (err != nil || !strings.Contains(out.String(), test.proves)) {
				t.Errorf("it says %q (%v), want %q", out.String(), err, test.proves)
			}
			if test.proves == "" && (err == nil || !strings.Contains(err.Error(), "shop") || !strings.Contains(err.Error(), test.say)) {
				t.Errorf("it says %q (%v), want an error with %q", out.String(), err, test.say)
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
			var out strings.Builder
			err := proveCommand{namespace: "shop", inject: "nope", prefix: "pillion.dev"}.run(t.Context(),
				&rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}, &out)
			if err == nil || out.Len() > 0 || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), c.not) {
				t.Errorf("%q, %v; want an error with %q and without %q", out.String(), err, c.says, c.not)
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
			config := &rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
			p := proveCommand{inject: "true", prefix: "pillion.dev"}
			if c.inject != "" {
				p.inject = c.inject
			}
			var out strings.Builder
			err := p.find(t.Context(), config, c.inject != "")
			if err == nil {
				err = p.run(t.Context(), config, &out)
			}
			said := out.String()
			if err != nil {
				said = err.Error()
			}
			if !strings.Contains(said, c.says) || namespace != c.namespace || annotation != c.annotation {
				t.Errorf("a pod of %q that asks for %q, and %q; want %q, %q and %q", namespace, annotation, said, c.namespace, c.annotation, c.says)
			}
		})
	}
}
