package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/pillion-dev/pillion/templates/library"
)

// made is the corpus. Tests only read it.
var made = sync.OnceValues(corpus)

func mustCorpus(t *testing.T) []review {
	t.Helper()
	reviews, err := made()
	if err != nil {
		t.Fatal(err)
	}
	return reviews
}

func TestTheCorpusHas200ReviewsOf2To60KB(t *testing.T) {
	reviews := mustCorpus(t)
	if len(reviews) != corpusSize {
		t.Errorf("%d reviews, want %d", len(reviews), corpusSize)
	}
	small, large, injected, again, uids := 0, 0, 0, 0, map[string]bool{}
	for _, r := range reviews {
		if len(r.body) < smallest || len(r.body) > largest || r.again && len(r.body) > largest*2/3 {
			t.Errorf("review %s in %s has %d bytes (second call: %t)", r.uid, r.group.namespace, len(r.body), r.again)
		}
		if len(r.body) < 2500 {
			small++
		}
		if len(r.body) > 50<<10 {
			large++
		}
		if r.group.injected {
			injected++
		}
		if r.again {
			again++
		}
		uids[string(r.uid)] = true
	}
	if small < 3 || large < 3 || injected < 90 || injected > 110 || again < 15 || len(uids) != corpusSize {
		t.Errorf("%d are small, %d large, %d injected, %d second calls, %d different", small, large, injected, again, len(uids))
	}
}

func TestTheCorpusIsTheSameEveryTime(t *testing.T) {
	for i, r := range mustCorpus(t) {
		if i%10 != 0 {
			continue
		}
		before := r.body
		if err := r.make(rand.New(rand.NewPCG(12, uint64(i)))); err != nil || !bytes.Equal(r.body, before) {
			t.Errorf("review %d is another one the second time (%v)", i, err)
		}
	}
}

func TestTheCorpusHasPodsAsAPIServersSendThem(t *testing.T) {
	for _, r := range mustCorpus(t) {
		var sent admissionv1.AdmissionReview
		var pod corev1.Pod
		decoder := json.NewDecoder(bytes.NewReader(r.body))
		decoder.DisallowUnknownFields()
		err := decoder.Decode(&sent)
		if err == nil {
			decoder = json.NewDecoder(bytes.NewReader(sent.Request.Object.Raw))
			decoder.DisallowUnknownFields()
			err = decoder.Decode(&pod)
		}
		if err != nil || sent.Request.Namespace != r.group.namespace || pod.Namespace != r.group.namespace || pod.Name != "" || pod.GenerateName == "" {
			t.Fatalf("%s: %v", r.body, err)
		}
		for _, c := range pod.Spec.Containers {
			if len(c.VolumeMounts) == 0 && pod.Spec.AutomountServiceAccountToken == nil {
				t.Errorf("review %s: container %s has no token", r.uid, c.Name)
			}
		}
		if len(pod.ManagedFields) != 1 || !json.Valid(pod.ManagedFields[0].FieldsV1.GetRawBytes()) {
			t.Errorf("review %s has the managed fields %v", r.uid, pod.ManagedFields)
		}
	}
}

func TestManagedFieldsNameEachItemByItsKey(t *testing.T) {
	got, err := json.Marshal(fieldsIn(map[string]any{
		"containers": []any{map[string]any{"name": "web", "args": []any{"-v"}, "ports": []any{map[string]any{"containerPort": 80, "protocol": "TCP"}}}},
	}, ""))
	const want = `{".":{},"f:containers":{".":{},"k:{\"name\":\"web\"}":{".":{},"f:args":{},"f:name":{},` +
		`"f:ports":{".":{},"k:{\"containerPort\":80,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{},"f:protocol":{}}}}}}`
	if err != nil || string(got) != want {
		t.Errorf("%s (%v), want\n%s", got, err, want)
	}
}

func TestASecondCallHasThePatchAndTheToken(t *testing.T) {
	reviews := mustCorpus(t)
	r := reviews[slices.IndexFunc(reviews, func(r review) bool { return r.size > withoutToken })]
	body, err := r.secondCall(&admissionv1.AdmissionResponse{Patch: []byte(`[{"op":"add","path":"/spec/initContainers","value":[{"name":"side","image":"side:1"}]}]`)})
	if err != nil {
		t.Fatal(err)
	}
	var sent admissionv1.AdmissionReview
	var pod corev1.Pod
	if err := json.Unmarshal(body, &sent); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(sent.Request.Object.Raw, &pod); err != nil {
		t.Fatal(err)
	}
	if sent.Request.UID != r.uid || len(pod.Spec.InitContainers) != 1 || len(pod.Spec.InitContainers[0].VolumeMounts) != 1 || !bytes.Equal(body[:100], r.body[:100]) {
		t.Errorf("the second call is %.2000s", body)
	}
}

func TestEveryGroupAsksForTemplatesOfTheLibrary(t *testing.T) {
	if len(templates()) < 5 {
		t.Errorf("templates %q", templates())
	}
	asks := map[string]map[string]string{}
	for _, name := range templates() {
		if _, err := library.Get(name); err != nil {
			t.Error(err)
		}
	}
	for _, g := range groups {
		if before, seen := asks[g.namespace]; seen && !maps.Equal(before, g.asks) {
			t.Errorf("namespace %s asks for two things", g.namespace)
		}
		asks[g.namespace] = g.asks
		if g.injected && g.asks == nil {
			t.Errorf("nothing injects into %s", g.namespace)
		}
	}
}
