package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
	admissionv1 "k8s.io/api/admission/v1"
	"sigs.k8s.io/yaml"

	"github.com/pillion-dev/pillion/controller/events"
	"github.com/pillion-dev/pillion/injector"
	"github.com/pillion-dev/pillion/injector/entries"
	"github.com/pillion-dev/pillion/injector/workload"
	"github.com/pillion-dev/pillion/internal/tabletest"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/webhook"
)

type noEvents struct{}

func (noEvents) Record(events.Event) {}

// oneNamespace is every namespace.
type oneNamespace struct{ templates.Namespace }

func (n oneNamespace) Get(context.Context, string, func(templates.Namespace) bool) (templates.Namespace, error) {
	return n.Namespace, nil
}

// previewTemplates are those of the tests: one with parameters, one with a port, one that
// needs a role, one that some may have, and the broken one.
var previewTemplates = map[string]string{
	"shipper": `{parameters: [{name: logLevel, type: string, enum: [info, debug], default: info}, {name: memory, type: quantity, default: 64Mi, maximum: 128Mi}],
		inject: {spec: {containers: [{$each: App, env: [{name: A, value: b}]}, {name: shipper, image: 'x:1', env: [{name: LOG_LEVEL, value: '${params.logLevel}'}], resources: {limits: {memory: '${params.memory}'}}}]}}}`,
	"proxy": `{inject: {spec: {containers: [{name: proxy, image: 'x:1', ports: [{containerPort: 8080}], volumeMounts: [{name: tls, mountPath: /tls}]}], volumes: [{name: tls, emptyDir: {}}]}}}`,
	"vault": `{parameters: [{name: role, type: string, required: true, setBy: [Pod], example: a}], inject: {metadata: {labels: {role: '${params.role}'}}}}`,
	"payed": `{availableTo: {namespaceSelector: {matchLabels: {team: pay}}}, inject: {metadata: {labels: {a: b}}}}`,
	"web":   `{match: {namespaceSelector: {matchLabels: {team: web}}}, inject: {metadata: {labels: {a: b}}}}`,
	"bad":   `{inject: {spec: {nonsense: 1}}}`,
}

// newPreview returns the handler of previews in a namespace with these annotations.
func newPreview(t testing.TB, annotations map[string]string, change ...func(*webhook.PreviewOptions)) http.Handler {
	t.Helper()
	var all []templates.Entry
	for name, spec := range previewTemplates {
		manifest := "apiVersion: pillion.dev/v1alpha1\nkind: SidecarTemplate\nmetadata: {name: " + name + "}\nspec: " + spec
		template, _, err := templates.Compile([]byte(manifest), templates.Options{})
		if (err != nil) != (name == "bad") {
			t.Fatal(err)
		}
		all = append(all, templates.Entry{Name: name, Template: template, Err: err})
	}
	set := templates.NewSet(all)
	ns := templates.Namespace{Name: "shop", Labels: map[string]string{"pillion.dev/injection": "enabled"}, Annotations: annotations}
	pods := webhook.Pods{
		Pipeline:   injector.NewPipeline(injector.Config{}),
		Namespaces: oneNamespace{ns}, Templates: func() *templates.Set { return set },
	}
	options := webhook.PreviewOptions{
		Pods: pods, Created: createdPod, Rate: rate.NewLimiter(rate.Inf, 0),
	}
	for _, c := range change {
		c(&options)
	}
	handlers := webhook.NewPreview(options, entries.Registration{}.Preview())
	middleware := webhook.NewMiddleware(webhook.Options{
		Effects: noEvents{}, Metrics: webhook.NewMetrics(prometheus.NewRegistry()), Logger: slog.New(slog.DiscardHandler),
		Timeout: time.Hour, Memory: webhook.SideMemoryFor(256 << 20), Advice: true,
	})
	return middleware.Handler(handlers[0])
}

// previewReview is the review of an object as YAML.
func previewReview(t testing.TB, manifest string) []byte {
	t.Helper()
	documents, err := workload.Parse([]byte(manifest))
	if err != nil {
		t.Fatal(err)
	}
	object := documents[0].Object
	group, version, ok := strings.Cut(fmt.Sprint(object["apiVersion"]), "/")
	if !ok {
		group, version = "", group
	}
	metadata := object["metadata"].(map[string]any)
	review, err := json.Marshal(map[string]any{
		"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
		"request": map[string]any{
			"uid": "42", "kind": map[string]any{"group": group, "version": version, "kind": object["kind"]}, "operation": "CREATE",
			"namespace": "shop", "name": metadata["name"], "object": object,
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return review
}

// post sends a review.
func post(to http.Handler, review []byte) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/preview?timeout=1h", bytes.NewReader(review))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	to.ServeHTTP(w, r)
	return w
}

// preview returns the warnings about a review.
func preview(t testing.TB, to http.Handler, review []byte) []string {
	t.Helper()
	w := post(to, review)
	var answer admissionv1.AdmissionReview
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code != http.StatusOK || !answer.Response.Allowed || answer.Response.UID != "42" {
		t.Fatalf("HTTP %d, %v: %s", w.Code, err, w.Body)
	}
	for _, warning := range answer.Response.Warnings {
		if n := len([]rune(warning)); n > 255 {
			t.Errorf("a warning of %d characters: %s", n, warning)
		}
	}
	return answer.Response.Warnings
}

const (
	webManifest = "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web%s}, spec: {selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web%s}%s}, spec: {%scontainers: [{name: web, image: nginx%s}]}}}}"
	podSpec     = "{containers: [{name: web, image: nginx}]}"
	badTemplate = "{metadata: {annotations: {pillion.dev/inject: shiper}}, spec: " + podSpec + "}"
)

func TestAWorkloadIsToldWhatItsPodsWillMeet(t *testing.T) {
	for _, row := range tabletest.Rows(t, "testdata/workloads.txt") {
		t.Run(row.Name, func(t *testing.T) {
			var annotations map[string]string
			asks, manifest, ok := strings.Cut(row.Input, "\n")
			if ok {
				annotations = map[string]string{"pillion.dev/inject": strings.TrimPrefix(asks, "asks: ")}
			} else {
				manifest = asks
			}
			compareWarnings(t, preview(t, newPreview(t, annotations), previewReview(t, manifest)), row.Wants)
		})
	}
}

// compareWarnings wants a warning with all parts for each.
func compareWarnings(t *testing.T, said, want []string) {
	t.Helper()
	all := strings.Join(said, "\n")
	if len(want) == 0 && len(said) > 0 {
		t.Fatalf("%s", all)
	}
	if len(said) < len(want) {
		t.Fatalf("%d warnings, want %d:\n%s", len(said), len(want), all)
	}
	for _, parts := range want {
		for _, part := range strings.Split(parts, "|") {
			if !strings.Contains(strings.ReplaceAll(all, " …\n… ", " "), part) {
				t.Errorf("they lack %q:\n%s", part, all)
			}
		}
	}
}

func TestANamespaceIsToldWhatItsAnnotationsMean(t *testing.T) {
	to := newPreview(t, nil)
	for _, row := range tabletest.Rows(t, "testdata/namespaces.txt") {
		t.Run(row.Name, func(t *testing.T) {
			compareWarnings(t, preview(t, to, previewReview(t, "{apiVersion: v1, kind: Namespace, metadata: {name: shop, "+row.Input+"}}")), row.Wants)
		})
	}
}

// liveWorkloads are those of a namespace with other pods than the proxy can stand beside, and with
// a Job that would not end.
var liveWorkloads = map[string]string{
	"api":    `{metadata: {name: api}, spec: {template: {spec: {containers: [{name: api, image: x, ports: [{containerPort: 8080}]}]}}}}`,
	"web":    `{metadata: {name: web}, spec: {template: {spec: {containers: [{name: web, image: x}]}}}}`,
	"misses": `{metadata: {name: misses}, spec: {template: {metadata: {annotations: {pillion.dev/inject: "-proxy"}}, spec: {containers: [{name: web, image: x, ports: [{containerPort: 8080}]}]}}}}`,
	"job":    `{metadata: {name: job}, spec: {template: {spec: {restartPolicy: Never, containers: [{name: job, image: x}]}}}}`,
	"broken": `{metadata: {name: broken}, spec: {template: {spec: {containers: 1}}}}`,
}

// Annotating a namespace that runs is no time bomb: how many workloads get no next pods is said at once.
func TestWhoAnnotatesANamespaceReadsHowManyOfItsWorkloadsGetNoNewPods(t *testing.T) {
	reads := func(names ...string) func(*webhook.PreviewOptions) {
		return func(o *webhook.PreviewOptions) {
			o.Workloads = func(ctx context.Context, namespace string, f func(apiVersion, kind string, workload json.RawMessage)) []string {
				if namespace != "shop" {
					t.Errorf("the workloads of namespace %q", namespace)
				}
				for _, name := range names {
					apiVersion, kind := "apps/v1", "Deployment"
					switch name {
					case "job":
						apiVersion, kind = "batch/v1", "Job"
					case "slow":
						<-ctx.Done()
						return []string{"deployments (there was no time left)"}
					}
					text, err := yaml.YAMLToJSON([]byte(liveWorkloads[name]))
					if err != nil {
						t.Error(err)
					}
					f(apiVersion, kind, text)
				}
				return nil
			}
		}
	}
	for _, test := range []struct {
		title, operation, metadata string
		workloads                  []string
		want                       []string
	}{
		{"one of four", `"UPDATE"`, "annotations: {pillion.dev/inject: proxy}", []string{"web", "api", "misses", "job"}, []string{
			"namespace shop: 1 of 4 workloads cannot create new pods; pillion status shop names them",
		}},
		{"a dry run", `"UPDATE","dryRun":true`, "annotations: {pillion.dev/inject: proxy}", []string{"web", "api"}, []string{"1 of 2 workloads cannot create new pods"}},
		{"all is well", `"UPDATE"`, "annotations: {pillion.dev/inject: proxy}", []string{"web", "misses"}, nil},
		{"a new namespace has none", `"CREATE"`, "annotations: {pillion.dev/inject: proxy}", []string{"api"}, nil},
		{"nothing asks any more", `"UPDATE"`, "annotations: {}", []string{"api"}, nil},
		{"no time, and one that cannot be read", `"UPDATE"`, "annotations: {pillion.dev/inject: proxy}", []string{"api", "broken", "slow"}, []string{
			"1 of 1 workloads cannot", "namespace shop: not checked; their next pods may be refused: deployments (there was no time left), 1 more workloads",
		}},
	} {
		t.Run(test.title, func(t *testing.T) {
			t.Parallel()
			review := previewReview(t, "{apiVersion: v1, kind: Namespace, metadata: {name: shop, "+test.metadata+"}}")
			said := preview(t, newPreview(t, nil, reads(test.workloads...)), bytes.Replace(review, []byte(`"CREATE"`), []byte(test.operation), 1))
			compareWarnings(t, said, test.want)
			text := strings.Join(said, "\n")
			if strings.Contains(test.operation, "dryRun") && strings.Contains(text, "pillion status") {
				t.Errorf("the cluster does not have what a dry run tries: %s", text)
			}
			if strings.Contains(text, "api") || strings.Contains(text, "8080") {
				t.Errorf("it names a workload, or says something of it, to anybody who reaches the port: %s", text)
			}
		})
	}
}

// API servers make a write again, with all its calls, when somebody else wrote in between. Where
// others write all the time, one that takes long each time never gets through.
func TestAWriteThatIsMadeAgainWaitsForTheWorkloadsOnce(t *testing.T) {
	lists := 0
	to := newPreview(t, nil, func(o *webhook.PreviewOptions) {
		o.Workloads = func(context.Context, string, func(apiVersion, kind string, workload json.RawMessage)) []string {
			lists++
			return nil
		}
	})
	for _, c := range []struct {
		asks, operation string
		want            int
	}{{"proxy", `"UPDATE"`, 1}, {"proxy", `"UPDATE"`, 1}, {"shipper", `"UPDATE"`, 2}, {"shipper", `"UPDATE","dryRun":true`, 3}, {"proxy", `"UPDATE"`, 3}} {
		review := previewReview(t, "{apiVersion: v1, kind: Namespace, metadata: {name: shop, annotations: {pillion.dev/inject: "+c.asks+"}}}")
		preview(t, to, bytes.Replace(review, []byte(`"CREATE"`), []byte(c.operation), 1))
		if lists != c.want {
			t.Errorf("%s of %s: the workloads were listed %d times, want %d", c.operation, c.asks, lists, c.want)
		}
	}
}

// A command explains what the cluster has.
func TestAPreviewOfADryRunProposesNoCommandThatExplainsAnotherObject(t *testing.T) {
	to := newPreview(t, nil)
	web := previewReview(t, fmt.Sprintf(webManifest, "", "", ", annotations: {pillion.dev/inject: shiper}", "", ""))
	for operation, want := range map[string]bool{`"CREATE"`: true, `"CREATE","dryRun":true`: false, `"UPDATE"`: true, `"UPDATE","dryRun":true`: false} {
		said := strings.Join(preview(t, to, bytes.Replace(web, []byte(`"CREATE"`), []byte(operation), 1)), "\n")
		if !strings.Contains(said, "are refused") || strings.Contains(said, "kubectl pillion explain -n shop deploy/web") != want {
			t.Errorf("%s:\n%s", operation, said)
		}
	}
}

// FuzzPreview holds: whatever stands in a review, the object is not refused, and what is said
// is fit to print.
func FuzzPreview(f *testing.F) {
	to := newPreview(f, map[string]string{"pillion.dev/inject": "shipper,proxy"})
	for _, manifest := range []string{
		fmt.Sprintf(webManifest, "", "", "", "", ""), fmt.Sprintf(webManifest, ", annotations: {pillion.dev/inject: x}", ", pillion.dev/inject: x", ", annotations: {pillion.dev/status: '{}'}", "", ", ports: [{containerPort: 8080}]"),
		"{apiVersion: v1, kind: Namespace, metadata: {name: shop, labels: {pillion.dev/injection: x}, annotations: {pillion.dev/inject: a}}}",
		"{apiVersion: batch/v1, kind: CronJob, metadata: {name: tidy}, spec: {jobTemplate: {spec: {template: " + badTemplate + "}}}}",
		"{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: " + podSpec + "}",
	} {
		f.Add(previewReview(f, manifest))
	}
	f.Fuzz(func(t *testing.T, review []byte) {
		w := post(to, review)
		if w.Code == http.StatusBadRequest {
			return // the API server goes on: failurePolicy Ignore
		}
		var answer admissionv1.AdmissionReview
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code != http.StatusOK || !answer.Response.Allowed || answer.Response.Patch != nil {
			t.Fatalf("HTTP %d, %v: %s", w.Code, err, w.Body)
		}
		total := 0
		for _, warning := range answer.Response.Warnings {
			n := len([]rune(warning))
			if total += n; n > 255 || strings.ContainsAny(warning, "\n\r\x00\x1b") {
				t.Fatalf("%q is not fit to print", warning)
			}
		}
		if total > 4095 {
			t.Fatalf("warnings of %d characters", total)
		}
	})
}
