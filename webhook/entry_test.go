package webhook

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/pillion-dev/pillion/injector/entries"
	"github.com/pillion-dev/pillion/templates"
)

// shopWith is the namespace shop with labels, written KEY=VALUE.
func shopWith(labels ...string) templates.Namespace {
	ns := templates.Namespace{Name: "shop", Labels: map[string]string{}, Annotations: map[string]string{"pillion.dev/inject": "shipper"}}
	for _, label := range labels {
		key, value, _ := strings.Cut(label, "=")
		ns.Labels["pillion.dev/"+key] = value
	}
	return ns
}

func TestAnEntrySelectsTheNamespacesThatItsRegistrationSelects(t *testing.T) {
	labels := map[string]templates.Namespace{
		"absent": shopWith(), "enabled": shopWith("injection=enabled"), "enforced": shopWith("injection=enforced"), "disabled": shopWith("injection=disabled"),
		"other": shopWith("injection=Enforced"), "empty": shopWith("injection="),
		"required": shopWith("required=true"), "required, enabled": shopWith("required=true", "injection=enabled"),
		"required, enforced": shopWith("required=true", "injection=enforced"), "required, disabled": shopWith("required=true", "injection=disabled"),
		"not required, enforced": shopWith("required=false", "injection=enforced"),
	}
	for name, c := range map[string]struct {
		entries []entries.Entry
		selects map[string]string // the names of entries, by namespace; others get none
	}{
		"mutating": {entries.Registration{}.Mutating(), map[string]string{
			"absent": "pods", "other": "pods", "empty": "pods", "required": "pods", "enabled": "requested", "required, enabled": "requested",
			"enforced": "enforced", "required, enforced": "enforced", "not required, enforced": "enforced",
		}},
		"mutating, all": {entries.Registration{All: true}.Mutating(), map[string]string{
			"absent": "requested and pods", "other": "requested and pods", "empty": "requested and pods", "required": "requested and pods", "enabled": "requested", "required, enabled": "requested",
			"enforced": "enforced", "required, enforced": "enforced", "not required, enforced": "enforced",
		}},
		"verifying": {entries.Registration{}.Verifying(), map[string]string{
			"required": "requested", "required, enabled": "requested", "required, enforced": "enforced",
		}},
		// Previews go by the entries of pods.
		"preview":      {entries.Registration{}.Preview(), nil},
		"preview, all": {entries.Registration{All: true}.Preview(), nil},
	} {
		for label, ns := range labels {
			var got []string
			for _, e := range c.entries {
				if e.Selects(ns) {
					got = append(got, e.Name)
				}
			}
			if c.selects == nil {
				if called := label != "disabled" && label != "required, disabled"; (len(got) > 0) != called || len(got) > 1 && name == "preview" {
					t.Errorf("%s, %s: %q", name, label, got)
				}
				continue
			}
			if text := strings.Join(got, " and "); text != c.selects[label] {
				t.Errorf("%s, %s: %q, want %q", name, label, text, c.selects[label])
			}
		}
	}
}

// stale has one namespace in its cache, and reads another one live.
type stale struct {
	cached, live templates.Namespace
	err          error
	reads        int
}

func (s *stale) Get(_ context.Context, _ string, agrees func(templates.Namespace) bool) (templates.Namespace, error) {
	if agrees(s.cached) {
		return s.cached, nil
	}
	s.reads++
	if s.err != nil {
		return s.cached, s.err
	}
	return s.live, nil
}

func TestAReviewThatProvesTheCachedNamespaceStaleIsAnsweredByALiveRead(t *testing.T) {
	never, asked := shopWith(), shopWith("injection=enforced")
	never.Annotations = nil
	for _, through := range (entries.Registration{}).Mutating() {
		for name, c := range map[string]struct {
			namespaces *stale
			want       string // the reason
		}{
			"a cache from before":     {&stale{cached: never, live: asked}, map[string]string{"enforced": "Injected", "requested": "Injected", "pods": "NotRequested"}[through.Name]},
			"the live read disagrees": {&stale{cached: shopWith("injection=other"), live: never}, map[string]string{"enforced": "NotRequested", "requested": "NotRequested", "pods": "Injected"}[through.Name]},
		} {
			f := newFixture(t, func(p *parts) { p.Namespaces = c.namespaces })
			w := postTo(f.Handler(NewMutate(f.Pods, through)), reviewOf(v1Version, "", false))
			r := decodeAnswer(t, w).Response
			if injected := r.Patch != nil; injected != (c.want == "Injected") {
				t.Errorf("%s, %s: %+v, want %s", through.Name, name, r, c.want)
			}
			if reads := c.namespaces.reads; (reads == 1) == through.Selects(c.namespaces.cached) {
				t.Errorf("%s, %s: %d live reads", through.Name, name, reads)
			}
		}
	}
}

// Of a namespace that the cache has as enforced no pod is created without its sidecar because the
// API server has it as enabled, and this replica cannot read which is true.
func TestWhereNothingCanBeReadAnEnforcedNamespaceIsNotOpened(t *testing.T) {
	for _, all := range []bool{false, true} {
		for _, through := range (entries.Registration{All: all}).Mutating() {
			for value, want := range map[string]int{"enforced": http.StatusOK, "disabled": http.StatusServiceUnavailable, "other": http.StatusServiceUnavailable} {
				cached := shopWith("injection=" + value)
				if through.Selects(cached) {
					continue
				}
				if through.Name != "requested" {
					want = http.StatusServiceUnavailable
				}
				f := newFixture(t, func(p *parts) { p.Namespaces = &stale{cached: cached, err: errors.New("connection refused")} })
				w := postTo(f.Handler(NewMutate(f.Pods, through)), reviewOf(v1Version, "", false))
				if w.Code != want {
					t.Errorf("%s, cached %s: HTTP %d, want %d", through.Name, value, w.Code, want)
				} else if w.Code == http.StatusOK && decodeAnswer(t, w).Response.Patch == nil {
					t.Errorf("%s, cached %s: not injected", through.Name, value)
				}
			}
		}
	}
}

func TestAFinalPodIsVerifiedInTheNamespaceThatItsEntryProves(t *testing.T) {
	for _, through := range (entries.Registration{}).Verifying() {
		labels := []string{"required=true"}
		if through.Name == "enforced" {
			labels = append(labels, "injection=enforced")
		}
		now := shopWith(labels...)
		now.Labels["team"] = "shop"
		f := newFixture(t, withAudit(t))
		f.Namespaces = &stale{cached: shopWith(), live: now}
		if r := decodeAnswer(t, postTo(f.Handler(NewVerify(f.Pods, through)), reviewOf(v1Version, "", false))).Response; r.Allowed {
			t.Errorf("%s: the pod lacks what is required, and passes", through.Name)
		}
		f.Namespaces = &stale{cached: shopWith(), err: errors.New("connection refused")}
		if w := postTo(f.Handler(NewVerify(f.Pods, through)), reviewOf(v1Version, "", false)); w.Code != http.StatusServiceUnavailable {
			t.Errorf("%s: nothing can be read: HTTP %d", through.Name, w.Code)
		}
		enforced := shopWith("required=true", "injection=enforced")
		enforced.Labels["team"] = "shop"
		f.Namespaces = &stale{cached: enforced, err: errors.New("connection refused")}
		if r := decodeAnswer(t, postTo(f.Handler(NewVerify(f.Pods, through)), reviewOf(v1Version, "", false))).Response; r.Allowed {
			t.Errorf("%s: nothing can be read, and the pod passes that lacks what is required in the cached namespace", through.Name)
		}
	}
}
