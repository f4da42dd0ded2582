package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata/fake"

	"github.com/pillion-dev/pillion/injector/usage"
)

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
	p := namedProof{rules: usage.Rules{Prefix: "pillion.dev"}, try: func(_ context.Context, template string) error {
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
	}}
	var out strings.Builder
	err := p.run(t.Context(), map[string][]string{"there": {"a"}, "conflicting": {"a"}, "insecure": {"a"}, "gone": {"shop", "g", "f", "e", "d", "c", "b"}}, &out)
	if err == nil || !strings.Contains(err.Error(), "there is no template gone, which these namespaces name, so their pods are refused: b, c, d, e, f and 2 more.") ||
		!strings.Contains(err.Error(), "pillion check has the command") || strings.Count(err.Error(), "there is no template") != 1 {
		t.Errorf("the error is %v", err)
	}
	if want := []string{"gone", "conflicting", "insecure", "there"}; !slices.Equal(asked, want) || out.Len() != 0 {
		t.Errorf("asked for %v, want %v; it says %q", asked, want, &out)
	}
	if err := p.run(t.Context(), map[string][]string{"there": {"a"}}, &out); err != nil || !strings.Contains(out.String(), "every template that namespaces name is there: 1") {
		t.Errorf("%v, %q", err, &out)
	}
}

func TestNotEveryNameIsTried(t *testing.T) {
	named := map[string][]string{}
	for i := range mostNamed + 3 {
		named[fmt.Sprint("t", i)] = []string{"a"}
	}
	tried := 0
	p := namedProof{try: func(context.Context, string) error { tried++; return nil }}
	var out strings.Builder
	if err := p.run(t.Context(), named, &out); err != nil || tried != mostNamed || !strings.Contains(out.String(), "not looked at: 3 of the 503 templates") {
		t.Errorf("%v; %d tried, %q", err, tried, &out)
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
	got, err := listNamed(t.Context(), client, usage.Rules{Prefix: "pillion.dev", Excluded: []string{"kube-system"}})
	if err != nil || len(got) != 2 || !slices.Equal(got["a"], []string{"shop"}) || len(got["b"]) != 2 {
		t.Errorf("%v, %v", got, err)
	}
}
