package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/pillion-dev/pillion/internal/errtest"
	"github.com/pillion-dev/pillion/templates/podschema"
)

// standardReview is a review as the standard library reads it.
type standardReview struct {
	UID string `json:"uid"`
	Target
	Operation string          `json:"operation"`
	DryRun    bool            `json:"dryRun"`
	Object    json.RawMessage `json:"object"`
	OldObject json.RawMessage `json:"oldObject"`
	UserInfo  json.RawMessage `json:"userInfo"`
}

// Whatever stands between the members, before them and among them that nobody knows.
func TestAReviewIsReadAsTheStandardLibraryDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		space := func() string { return rapid.SampledFrom([]string{"", "", " ", "\n\t "}).Draw(t, "space") }
		join := func(open, close string, members []string) string {
			members = rapid.Permutation(members).Draw(t, "order")
			for i := range members {
				members[i] = space() + members[i] + space()
			}
			return open + strings.Join(members, ",") + close
		}
		member := func(name, value string) string { return fmt.Sprintf("%q%s:%s%s", name, space(), space(), value) }
		other := member("other", `{"kind":"x","metadata":{"labels":{"a":"b"}},"uid":[1,"}"]}`)
		fields := []string{member("labels", `{"a":"\"}{"}`), member("annotations", `{"b/c":"d\\"}`), member("managedFields", `[{"labels":1}]`)}
		fields = append(fields, rapid.SliceOfNDistinct(rapid.SampledFrom([]string{
			other, `"creationTimestamp":null`, `"generation":1e2`, `"f\u0069nalizers":["a", {}]`, `"uid":"\ud800"`, `"Labels":{}`,
		}), 0, 4, rapid.ID).Draw(t, "fields")...)
		metadata := join("{", "}", fields)
		spec := join("{", "}", []string{member("containers", `[{"name":"a,b"},{}, null]`), member("initContainers", rapid.SampledFrom([]string{`[{}]`, "null", "[]"}).Draw(t, "init")), other})
		object := join("{", "}", []string{member("apiVersion", `"v1"`), member("kind", `"Pod"`), member("metadata", metadata), member("spec", spec), other})
		request := join("{", "}", []string{
			member("uid", `"1"`), member("kind", join("{", "}", []string{member("group", `""`), member("version", `"v1"`), member("kind", `"Pod"`), other})),
			member("resource", join("{", "}", []string{member("version", `"v1"`), member("resource", `"pods"`), other})),
			member("namespace", `"sh\u006fp"`), member("name", rapid.SampledFrom([]string{`"x"`, "null"}).Draw(t, "name")), member("operation", `"CREATE"`),
			member("dryRun", rapid.SampledFrom([]string{"true", "false", "null"}).Draw(t, "dryRun")),
			member("object", object), member("oldObject", rapid.SampledFrom([]string{"null", object, `"x"`, "12"}).Draw(t, "old")), member("userInfo", `{"groups":["a"]}`), other,
		})
		body := space() + join("{", "}", []string{member("kind", `"AdmissionReview"`), member("apiVersion", `"admission.k8s.io/v1"`), member("request", request), other}) + space()
		var want struct {
			Request standardReview `json:"request"`
		}
		errtest.ExpectNone(t, json.Unmarshal([]byte(body), &want))
		_, r, err := decodeReview([]byte(body))
		if err != nil {
			t.Fatalf("%v\nin %s", err, body)
		}
		got := standardReview{UID: string(r.UID), Target: r.Target, Operation: r.Operation, DryRun: r.DryRun,
			Object: json.RawMessage(r.Object), OldObject: json.RawMessage(r.OldObject), UserInfo: json.RawMessage(r.UserInfo)}
		if diff := cmp.Diff(want.Request, got); diff != "" {
			t.Fatalf("%s\nin %s", diff, body)
		}
		r.memory.room = newRoom(16)
		pod, err := r.Metadata(context.Background())
		errtest.ExpectNone(t, err)
		whole, err := r.Pod(context.Background(), 1)
		errtest.ExpectNone(t, err)
		wholly, err := podschema.DecodeObject(want.Request.Object, "metadata", "managedFields")
		if diff := cmp.Diff(wholly, whole); err != nil || diff != "" {
			t.Fatalf("%v\n%s\nin %s", err, diff, body)
		}
		if diff := cmp.Diff(wholly["metadata"], pod["metadata"]); diff != "" {
			t.Fatalf("%s\nin %s", diff, body)
		}
		containers := 3
		if strings.Contains(spec, "[{}]") {
			containers = 4
		}
		if r.head.containers != containers {
			t.Fatalf("%d containers in %s", r.head.containers, body)
		}
	})
}

// The last of several members of one name counts, as for the API server's own decoder, for the
// metadata as for the whole object.
func TestOfDuplicatesTheLastCounts(t *testing.T) {
	_, r, err := decodeReview([]byte(`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"0","uid":"1","kind":{"version":"v1","kind":"Pod"},"resource":{"resource":"pods"},
		"object":{"kind":"Service"},"object":{"kind":"Pod","apiVersion":"v1","metadata":{"labels":{"a":"1"},"name":"x"},"metadata":{"labels":{"b":"2"},"uid":"a","labels":{"c":"3"},"uid":"b"}}}}`))
	if err != nil || r.UID != "1" {
		t.Fatalf("%+v, %v", r, err)
	}
	r.memory.room = newRoom(16)
	metadata, err := r.Metadata(t.Context())
	errtest.ExpectNone(t, err)
	pod, err := r.Pod(t.Context(), 1)
	errtest.ExpectNone(t, err)
	want := map[string]any{"labels": map[string]any{"c": "3"}, "uid": "b"}
	if !cmp.Equal(metadata["metadata"], any(want)) || !cmp.Equal(pod["metadata"], any(want)) {
		t.Errorf("the metadata are %v, and in the whole pod %v", metadata["metadata"], pod["metadata"])
	}
}
