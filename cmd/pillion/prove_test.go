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
