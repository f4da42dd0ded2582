package namespaces

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"

	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// answering returns an informer whose list requests are answered with a text, and the requests.
func answering(t *testing.T, answer func() io.Reader) (*Informer, *[]metav1.ListOptions) {
	t.Helper()
	var asked []metav1.ListOptions
	o := informerOptions(newClient(t), nil)
	o.Reads = requiredBy(t, "team").NamespaceReads
	o.List = func(_ context.Context, o metav1.ListOptions) (io.ReadCloser, error) {
		asked = append(asked, o)
		return io.NopCloser(answer()), nil
	}
	return New(o), &asked
}

func TestAListIsReadAsTheCacheKeepsIt(t *testing.T) {
	text := `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"7","continue":"next"},"items":[
		{"metadata":{"name":"a","resourceVersion":"3","uid":"u","labels":{"team":"x"}}},{"metadata":{"name":"b","resourceVersion":"4","labels":{"team":"y","pad":"` + strings.Repeat("x", mostKept) + `"}}}]}`
	i, asked := answering(t, func() io.Reader { return strings.NewReader(text) })
	got, err := i.list(t.Context(), metav1.ListOptions{Limit: 500, Continue: "here"})
	if err != nil {
		t.Fatal(err)
	}
	list := got.(*metainternalversion.List)
	var found []string
	for _, item := range list.Items {
		ns := item.(*cached)
		found = append(found, fmt.Sprint(ns.name, " ", ns.version, " ", ns.namespace().Labels))
	}
	if want := []string{"a 3 map[team:x]", "b 4 map[team:y]"}; !slices.Equal(found, want) || list.ResourceVersion != "7" || list.Continue != "next" {
		t.Errorf("%q, version %s, continue %s", found, list.ResourceVersion, list.Continue)
	}
	if o := (*asked)[0]; o.Limit != mostListed || o.Continue != "here" {
		t.Errorf("asked for %+v", o)
	}
	if got, err := i.list(t.Context(), metav1.ListOptions{Limit: 1}); err != nil || got.(*metainternalversion.List).ResourceVersion != "7" || (*asked)[1].Limit != 1 {
		t.Errorf("the version alone: %+v, %v, asked for %+v", got, err, (*asked)[1])
	}
}

func TestWhatIsNoListIsAnError(t *testing.T) {
	for _, text := range []string{``, `[]`, `null`, `{"items":[`, `{"items":[{"metadata":7}]}`, `{"metadata":[]}`, `{"items":[{"metadata":{"name":"a"}}`, `{"metadata":`} {
		i, _ := answering(t, func() io.Reader { return strings.NewReader(text) })
		if got, err := i.list(t.Context(), metav1.ListOptions{}); err == nil {
			t.Errorf("%s: %+v", text, got)
		}
	}
	i, _ := answering(t, nil)
	away := errors.New("away")
	i.o.List = func(context.Context, metav1.ListOptions) (io.ReadCloser, error) { return nil, away }
	if _, err := i.list(t.Context(), metav1.ListOptions{}); !errors.Is(err, away) {
		t.Errorf("%v, want the API server's error as it is", err)
	}
}

// endless is a list of large namespaces. Before each, it measures what is in memory.
type endless struct {
	left  int
	item  string
	text  strings.Reader
	begun bool
	most  uint64
}

func (e *endless) Read(p []byte) (int, error) {
	if e.text.Len() == 0 {
		switch {
		case e.left < 0:
			return 0, io.EOF
		case e.left == 0:
			e.text.Reset(`]}`)
		case !e.begun:
			e.text.Reset(`{"items":[` + e.item)
			e.begun = true
		default:
			e.text.Reset("," + e.item)
		}
		e.left--
		runtime.GC()
		var now runtime.MemStats
		runtime.ReadMemStats(&now)
		e.most = max(e.most, now.HeapAlloc)
	}
	return e.text.Read(p)
}

func TestAPageOfLargeNamespacesIsNeverInMemoryAsAWhole(t *testing.T) {
	var labels []string
	for n := range 3600 {
		labels = append(labels, fmt.Sprintf(`"%s/%d":"%s"`, strings.Repeat("d", 250), n, strings.Repeat("v", 60)))
	}
	e := &endless{left: mostListed, item: `{"metadata":{"name":"a","labels":{"team":"x",` + strings.Join(labels, ",") + `}}}`}
	i, _ := answering(t, func() io.Reader { return e })
	var before runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	got, err := i.list(t.Context(), metav1.ListOptions{})
	if err != nil || len(got.(*metainternalversion.List).Items) != mostListed {
		t.Fatalf("%+v, %v", got, err)
	}
	// One as text and decoded, and the garbage of none.
	if taken := int64(e.most) - int64(before.HeapAlloc); taken > int64(8*len(e.item)) {
		t.Errorf("%d KiB were in memory for namespaces of %d KiB", taken>>10, len(e.item)>>10)
	}
}
