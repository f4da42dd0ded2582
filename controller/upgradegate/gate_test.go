package upgradegate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pillion-dev/pillion/controller/runtest"
	"github.com/pillion-dev/pillion/controller/usage"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/templatestest"
)

// cluster has one ConfigMap and the namespaces, as all replicas see them.
type cluster struct {
	mu         sync.Mutex
	data       map[string]string
	version    int
	writes     int
	err        error
	full       error // of writes
	namespaces []templates.Namespace
}

func (c *cluster) Get(context.Context, string, metav1.GetOptions) (*corev1.ConfigMap, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return nil, c.err
	}
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{ResourceVersion: fmt.Sprint(c.version)}, Data: c.data}, nil
}

func (c *cluster) Update(_ context.Context, m *corev1.ConfigMap, _ metav1.UpdateOptions) (*corev1.ConfigMap, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := cmp.Or(c.err, c.full); err != nil {
		return nil, err
	}
	if m.ResourceVersion != fmt.Sprint(c.version) {
		return nil, apierrors.NewConflict(schema.GroupResource{Resource: "configmaps"}, "in-use", errors.New("another one was faster"))
	}
	c.version++
	c.writes++
	c.data = m.Data
	return m, nil
}

func (c *cluster) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
}

// name has namespaces with an annotation each.
func (c *cluster) name(annotations ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.namespaces = nil
	for i, a := range annotations {
		c.namespaces = append(c.namespaces, templates.Namespace{Name: fmt.Sprint("shop-", i), Annotations: map[string]string{"pillion.dev/inject": a}})
	}
}

func (c *cluster) all() iter.Seq[templates.Namespace] {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Values(c.namespaces)
}

func (c *cluster) inUse() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(strings.Fields(c.data[templatesKey]), ",")
}

func (c *cluster) written() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.writes
}

// replica is one Pillion.
type replica struct {
	*Gate
	cluster *cluster
	stop    func()
	log     *strings.Builder
}

// start starts a replica with templates of these names.
func (c *cluster) start(t *testing.T, names []string, allowed ...string) *replica {
	t.Helper()
	log := &strings.Builder{}
	r := &replica{cluster: c, log: log}
	r.Gate = New(Options{
		ConfigMaps: c, Name: "in-use", Instance: "pillion-0", Namespaces: c.all, Allowed: allowed,
		Serving: func() error { return nil }, Logger: slog.New(slog.NewTextHandler(log, nil)),
	})
	r.stop = runtest.Start(t, r.Run)
	r.have(t, names...)
	return r
}

// have puts these templates in force. A name with a ! has no usable version.
func (r *replica) have(t *testing.T, names ...string) {
	t.Helper()
	var entries []templates.Entry
	for _, name := range names {
		name, bad := strings.CutSuffix(name, "!")
		e := templates.Entry{Name: name, Template: templatestest.Compile(t, "{apiVersion: pillion.dev/v1alpha1, kind: SidecarTemplate, metadata: {name: any}, spec: {inject: {metadata: {labels: {a: b}}}}}")}
		if bad {
			e.Template, e.Err = nil, errors.New("it does not compile")
		}
		entries = append(entries, e)
	}
	set := templates.NewSet(entries)
	r.Counted(usage.Count{Set: set, Usage: usage.Rules{}.Count(set, r.cluster.all())})
}

func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestAReplicaThatLacksATemplateInUseIsHeldUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{}
		c.name("fluent-bit", "vault, fluent-bit", "fluent-bit", "typo")
		old := c.start(t, []string{"fluent-bit", "vault", "unused"})
		after(5 * time.Second)
		if err := old.Ready(); err != nil || c.inUse() != "fluent-bit,vault" {
			t.Fatalf("the first replica: %v; in use are %s", err, c.inUse())
		}
		upgraded := c.start(t, []string{"vault"})
		for range 10 {
			after(time.Minute)
			err := upgraded.Ready()
			if err == nil {
				t.Fatal("a replica without fluent-bit is ready")
			}
			for _, want := range []string{"missing: fluent-bit (shop-0, shop-1 and 1 more)", "helm rollback", "then pods of these namespaces are refused", "allowMissingTemplates={fluent-bit}"} {
				if !strings.Contains(err.Error(), want) {
					t.Fatalf("%q lacks %q", err, want)
				}
			}
		}
		if c.inUse() != "fluent-bit,vault" {
			t.Errorf("in use are %s", c.inUse())
		}
		same := c.start(t, []string{"fluent-bit", "vault"})
		after(time.Millisecond)
		if err := same.Ready(); err != nil {
			t.Errorf("a replica that has all: %v", err)
		}
		broken := c.start(t, []string{"vault", "fluent-bit!"})
		after(time.Minute)
		if err := broken.Ready(); err == nil || !strings.Contains(err.Error(), "its manifest cannot be used") {
			t.Errorf("a replica whose fluent-bit is broken: %v", err)
		}
		c.name("vault")
		after(2 * time.Second)
		if err := errors.Join(upgraded.Ready(), broken.Ready()); err != nil {
			t.Errorf("when no namespace names it: %v", err)
		}
	})
}

func TestANameThatNeverWasATemplateHoldsNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{}
		c.name("typo", "fluent-bit")
		c.start(t, []string{"vault"})
		after(time.Minute)
		r := c.start(t, []string{"vault"})
		after(time.Millisecond)
		if err := r.Ready(); err != nil || c.inUse() != "" || c.written() != 0 {
			t.Errorf("%v; in use are %q after %d writes", err, c.inUse(), c.written())
		}
	})
}

func TestWhereNobodyServesAReplicaIsReadyAllTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{}
		c.name("fluent-bit")
		first := c.start(t, []string{"fluent-bit"})
		after(time.Minute)
		first.stop()
		r := c.start(t, nil)
		after(Quiet - 2*time.Second)
		if r.Ready() == nil {
			t.Fatal("ready at once")
		}
		after(4 * time.Second)
		if err := r.Ready(); err != nil || !strings.Contains(r.log.String(), "no other replica serves") {
			t.Fatalf("%v; the log says\n%s", err, r.log)
		}
		after(2 * time.Second)
		second := c.start(t, nil)
		after(time.Millisecond)
		if err := second.Ready(); err != nil || c.inUse() != "" {
			t.Errorf("the next one: %v; in use are %s", err, c.inUse())
		}
	})
}

// The API server's store may be full. Then nobody can ask, and nobody could answer.
func TestAQuestionThatCannotBeWrittenHoldsNobodyUpForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{}
		c.name("fluent-bit")
		first := c.start(t, []string{"fluent-bit"})
		after(time.Minute)
		first.stop()
		c.mu.Lock()
		c.full = errors.New("no space")
		c.mu.Unlock()
		r := c.start(t, nil)
		after(Quiet - 2*time.Second)
		if r.Ready() == nil {
			t.Fatal("ready at once")
		}
		after(4 * time.Second)
		if err := r.Ready(); err != nil {
			t.Errorf("%v; the log says\n%s", err, r.log)
		}
	})
}

func TestWhileTheAPIServerIsAwayNobodyIsTakenForDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{}
		c.name("fluent-bit")
		c.start(t, []string{"fluent-bit"})
		after(time.Minute)
		upgraded := c.start(t, nil)
		after(25 * time.Second)
		for range 3 {
			c.fail(errors.New("connection refused"))
			after(2 * time.Minute)
			if upgraded.Ready() == nil {
				t.Fatal("ready while the API server is away")
			}
			c.fail(nil)
			after(25 * time.Second)
			if upgraded.Ready() == nil {
				t.Fatal("ready once the API server is back")
			}
		}
	})
}

func TestATemplateLeavesTheRecordWhenItMay(t *testing.T) {
	for why, change := range map[string]func(t *testing.T, c *cluster, r *replica){
		"it is deleted while replicas serve": func(t *testing.T, c *cluster, r *replica) { r.have(t, "vault") },
		"no namespace names it":              func(t *testing.T, c *cluster, r *replica) { c.name("vault"); r.have(t, "fluent-bit", "vault") },
		"the admin allows it": func(t *testing.T, c *cluster, r *replica) {
			r.stop()
			r = c.start(t, []string{"vault"}, "fluent-bit")
			after(time.Millisecond)
			if err := r.Ready(); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &cluster{}
				c.name("fluent-bit,vault")
				r := c.start(t, []string{"fluent-bit", "vault"})
				after(5 * time.Second)
				change(t, c, r)
				after(5 * time.Second)
				if c.inUse() != "vault" {
					t.Errorf("in use are %s", c.inUse())
				}
			})
		})
	}
}

func TestTheRecordIsWrittenWhenItChangesOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{}
		c.name("fluent-bit")
		var all []*replica
		for range 5 {
			all = append(all, c.start(t, []string{"fluent-bit"}))
		}
		for range 600 { // namespaces change all the time
			after(time.Second)
			for _, r := range all {
				r.have(t, "fluent-bit")
			}
		}
		if n := c.written(); n != 1 || c.inUse() != "fluent-bit" {
			t.Errorf("in use are %s after %d writes in ten minutes", c.inUse(), n)
		}
		upgraded := c.start(t, nil)
		after(10 * time.Minute)
		if n := c.written(); upgraded.Ready() == nil || n > 2*600/8+2 {
			t.Errorf("%d writes while a replica is held up for ten minutes: %v", n, upgraded.Ready())
		}
		c.name("vault") // nobody is held up any more
		for _, r := range append(all, upgraded) {
			r.have(t, "vault")
		}
		after(time.Minute)
		before := c.written()
		if after(10 * time.Minute); upgraded.Ready() != nil || c.written() != before {
			t.Errorf("%d writes where nothing changes: %v", c.written()-before, upgraded.Ready())
		}
	})
}

func TestWithoutTheRecordNobodyIsHeldUp(t *testing.T) {
	for why, err := range map[string]error{
		"gone":           apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, "in-use"),
		"forbidden":      apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "in-use", errors.New("no")),
		"never answered": errors.New("timeout"),
	} {
		t.Run(why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &cluster{err: err}
				c.name("fluent-bit")
				r := c.start(t, []string{"fluent-bit"})
				after(Quiet + 5*time.Second)
				if rerr := r.Ready(); rerr != nil {
					t.Errorf("Ready() = %v", rerr)
				}
				if says := strings.Count(r.log.String(), "templates in use cannot be recorded"); says != 1 {
					t.Errorf("the log says it %d times:\n%s", says, r.log)
				}
			})
		})
	}
}
