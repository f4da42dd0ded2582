package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/cache"
	"sigs.k8s.io/yaml"

	"github.com/pillion-dev/pillion/controller/events"
	"github.com/pillion-dev/pillion/injector"
	"github.com/pillion-dev/pillion/injector/entries"
	"github.com/pillion-dev/pillion/inspect"
	"github.com/pillion-dev/pillion/offline/predict"
	"github.com/pillion-dev/pillion/offline/workload"
	"github.com/pillion-dev/pillion/templates"
	"github.com/pillion-dev/pillion/templates/templatestest"
	"github.com/pillion-dev/pillion/webhook"
)

type noEvents struct{}

func (noEvents) Record(events.Event) {}

// oneNamespace is every namespace.
type oneNamespace struct{ templates.Namespace }

func (n oneNamespace) Get(context.Context, string, *templates.NamespaceReads, func(templates.Namespace) bool) (templates.Namespace, error) {
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

// newPreview returns the handler of previews in a namespace with these annotations, and what
// limits its pods.
func newPreview(t testing.TB, annotations map[string]string, limits predict.Namespace, change ...func(*webhook.PreviewOptions)) http.Handler {
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
	ns := templates.Namespace{Name: "shop", Labels: map[string]string{"pillion.dev/injection": "enabled", "pod-security.kubernetes.io/enforce": limits.Labels["enforce"]}, Annotations: annotations}
	pods := webhook.Pods{
		Pipeline:   injector.NewPipeline(injector.Config{Prefix: templates.DefaultPrefix}),
		Namespaces: oneNamespace{ns}, Templates: func() *templates.Set { return set },
	}
	options := webhook.PreviewOptions{
		Pods: pods, Prefix: templates.DefaultPrefix, Created: created,
		Refused: namespaceLimits{read: func(context.Context, string) predict.Namespace { return limits }}.refused, Rate: rate.NewLimiter(rate.Inf, 0),
	}
	for _, c := range change {
		c(&options)
	}
	handlers := webhook.NewPreview(options, entries.Registration{Prefix: templates.DefaultPrefix}.Preview())
	middleware := webhook.NewMiddleware(webhook.Options{
		Effects: noEvents{}, Metrics: webhook.NewMetrics(prometheus.NewRegistry()), Logger: slog.New(slog.DiscardHandler),
		Timeout: time.Hour, Memory: webhook.AdviceMemoryFor(256 << 20), Advice: true,
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
	asks := func(names string) map[string]string { return map[string]string{"pillion.dev/inject": names} }
	deployment := func(own, labels, annotations, spec, container string) string {
		if annotations != "" {
			annotations = ", annotations: {" + annotations + "}"
		}
		return fmt.Sprintf(webManifest, own, labels, annotations, spec, container)
	}
	quota, err := limitsOf(`[{kind: LimitRange, metadata: {name: small}, spec: {limits: [{type: Container, max: {memory: 32Mi}}]}}]`)
	if err != nil {
		t.Fatal(err)
	}
	none := predict.Namespace{}
	for _, test := range []struct {
		title     string
		namespace map[string]string
		limits    predict.Namespace
		manifest  string
		// want has the parts of each warning, separated by |.
		want []string
	}{
		{"nothing is wrong", asks("shipper"), none, deployment("", "", "shipper.pillion.dev/log-level: debug", "", ""), nil},
		{"nobody asks", nil, none, deployment("", "", "", "", ""), nil},
		{"an object without pods", asks("shiper"), none, "{apiVersion: v1, kind: ConfigMap, metadata: {name: web}}", nil},
		{"a misspelt template", nil, none, deployment("", "", "pillion.dev/inject: shiper", "", ""),
			[]string{"pods of Deployment web are refused|no template \"shiper\"|there are: bad, proxy, shipper, vault|did you mean \"shipper\"?|(UnknownTemplate)"}},
		{"a wrong key", nil, none, deployment("", "", "pillion.dev/injcet: shipper", "", ""),
			[]string{"pods of Deployment web: annotation pillion.dev/injcet is not recognised|did you mean the annotation pillion.dev/inject?"}},
		{"a label in place of the annotation", nil, none, deployment("", ", pillion.dev/inject: shipper", "", "", ""),
			[]string{"pods of Deployment web: label pillion.dev/inject has no effect as a label|write it as an annotation"}},
		{"the annotation on the Deployment", nil, none, deployment(", annotations: {pillion.dev/inject: shipper}", "", "", "", ""), []string{
			"Deployment web: annotation pillion.dev/inject has no effect on the Deployment itself|spec.template.metadata.annotations",
			`kubectl -n shop patch deployment web --type=merge -p '{"metadata":{"annotations":{"pillion.dev/inject":null}},"spec":{"template":{"metadata":{"annotations":{"pillion.dev/inject":"shipper"}}}}}'`,
		}},
		{"two annotations on the Deployment", nil, none, deployment(", annotations: {pillion.dev/inject: shipper, shipper.pillion.dev/log-level: debug}", "", "", "", ""), []string{
			"pillion.dev/inject has no effect on the Deployment itself", "shipper.pillion.dev/log-level has no effect on the Deployment itself",
			"kubectl|pillion.dev/inject\":\"shipper", "kubectl|shipper.pillion.dev/log-level\":\"debug",
		}},
		{"a wrong value", asks("shipper"), none, deployment("", "", "shipper.pillion.dev/log-level: loud", "", ""),
			[]string{"pods of Deployment web are refused|shipper.pillion.dev/log-level on the pod: must be one of|info, debug|(BadParameter)"}},
		{"a parameter of no template", asks("shipper"), none, deployment("", "", "valt.pillion.dev/role: web", "", ""), []string{"no template \"valt\"; did you mean vault?"}},
		{"an unknown parameter", asks("shipper"), none, deployment("", "", "shipper.pillion.dev/log-levle: debug", "", ""), []string{"pods of Deployment web|shipper.pillion.dev/log-levle|log-level"}},
		{"a clash of ports", asks("proxy"), none, deployment("", "", "", "", ", ports: [{containerPort: 8080}]"), []string{"are refused|8080|(Conflict)"}},
		{"what the pod keeps", asks("shipper"), none, deployment("", "", "", "", ", env: [{name: A, value: mine}]"), []string{"pods of Deployment web: |A|the pod's value is used"}},
		{"pod security", asks("shipper"), predict.Namespace{Namespace: templates.Namespace{Labels: map[string]string{"enforce": "restricted"}}},
			deployment("", "", "", "securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}, ", ", securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}"),
			[]string{"pods of Deployment web: Pod Security refuses the pod|restricted", "the template shipper"}},
		{"pod security of the app's own", asks("shipper"), predict.Namespace{Namespace: templates.Namespace{Labels: map[string]string{"enforce": "restricted"}}}, deployment("", "", "", "", ""), nil},
		{"a limit range", asks("shipper"), quota, deployment("", "", "", "", ", resources: {limits: {memory: 1Mi}}"), []string{"the LimitRange small refuses the pod|shipper|32Mi", "shipper.pillion.dev/memory"}},
		{"a limit range for the app itself", asks("shipper"), quota, deployment("", "", "", "", ", resources: {limits: {memory: 1Gi}}"), nil},

		{"a Job that a sidecar keeps from finishing", asks("proxy"), none, "{apiVersion: batch/v1, kind: Job, metadata: {name: once}, spec: {template: {spec: {restartPolicy: Never, containers: [{name: web, image: nginx}]}}}}",
			[]string{"pods of Job once: the Job finishes only when the container proxy ends, too"}},
		{"a CronJob", nil, none, "{apiVersion: batch/v1, kind: CronJob, metadata: {name: tidy}, spec: {jobTemplate: {spec: {template: " + badTemplate + "}}}}", []string{"pods of CronJob tidy are refused|shiper", "kubectl pillion explain -n shop cronjob/tidy"}},
		{"a CronJob with the annotation on itself", nil, none, "{apiVersion: batch/v1, kind: CronJob, metadata: {name: tidy, annotations: {pillion.dev/inject: shipper}}, spec: {jobTemplate: {spec: {template: {spec: " + podSpec + "}}}}}",
			[]string{"CronJob tidy: |spec.jobTemplate.spec.template.metadata.annotations", "kubectl -n shop patch cronjob tidy|jobTemplate"}},
		{"a Job with the annotation on itself", nil, none, "{apiVersion: batch/v1, kind: Job, metadata: {name: once, annotations: {pillion.dev/inject: shipper}}, spec: {template: {spec: " + podSpec + "}}}",
			[]string{"Job once: |spec.template.metadata.annotations"}},
		// The mutating webhook has said it in its answer to the same request.
		{"a pod with a misspelt template", nil, none, "{apiVersion: v1, kind: Pod, metadata: {name: web, annotations: {pillion.dev/inject: shiper}}, spec: " + podSpec + "}", nil},
		{"a pod with a wrong key", nil, none, "{apiVersion: v1, kind: Pod, metadata: {name: web, labels: {pillion.dev/inject: shipper}}, spec: " + podSpec + "}", []string{"Pod web: label pillion.dev/inject has no effect as a label"}},
	} {
		t.Run(test.title, func(t *testing.T) {
			said := preview(t, newPreview(t, test.namespace, test.limits), previewReview(t, test.manifest))
			compareWarnings(t, said, test.want)
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

// limitsOf returns what a YAML list has.
func limitsOf(list string) (predict.Namespace, error) {
	documents, err := workload.Parse([]byte("{kind: List, items: " + list + "}"))
	if err != nil {
		return predict.Namespace{}, err
	}
	n, err := inspect.FileNamespaces(itemsOf(documents[0].Object), "")
	return n.Limited(templates.Namespace{}), err
}

func TestANamespaceIsToldWhatItsAnnotationsMean(t *testing.T) {
	to := newPreview(t, nil, predict.Namespace{})
	for _, test := range []struct {
		title, metadata string
		want            []string
	}{
		{"nothing is wrong", "labels: {pillion.dev/injection: enabled}, annotations: {pillion.dev/inject: 'shipper,vault', shipper.pillion.dev/log-level: debug}", nil},
		{"a parameter that only pods may set is missing", "annotations: {pillion.dev/inject: vault}", nil},
		{"a bad value", "annotations: {pillion.dev/inject: '+shipper'}", []string{"pods of namespace shop are refused|+shipper|(BadAnnotation)"}},
		{"a misspelt template", "annotations: {pillion.dev/inject: shiper}", []string{"pods of namespace shop are refused|no template \"shiper\"|did you mean \"shipper\"?"}},
		{"a template for others", "annotations: {pillion.dev/inject: payed}", []string{"not available to namespace"}},
		{"a template for this one", "labels: {team: pay}, annotations: {pillion.dev/inject: payed}", nil},
		{"a bad parameter", "annotations: {shipper.pillion.dev/log-level: loud}", []string{"namespace shop: pods with the template shipper are refused|\"loud\"|(BadParameter)"}},
		{"a parameter of pods", "annotations: {vault.pillion.dev/role: web}", []string{"vault.pillion.dev/role|may be set by the pod"}},
		{"an unknown parameter", "annotations: {shipper.pillion.dev/log-levle: debug}", []string{"namespace shop: annotation shipper.pillion.dev/log-levle is not recognised|did you mean log-level?"}},
		{"a wrong key", "annotations: {pillion.dev/injection: x}", []string{"namespace shop: annotation pillion.dev/injection is not recognised|pillion.dev/inject?"}},
		{"a label in place of the annotation", "labels: {pillion.dev/inject: shipper}", []string{"namespace shop: label pillion.dev/inject has no effect as a label"}},
		{"the label alone, as for another injector", "labels: {pillion.dev/injection: enabled}", []string{"namespace shop: the label pillion.dev/injection asks for no sidecar|kubectl annotate namespace shop pillion.dev/inject=TEMPLATE"}},
		{"the label, and false", "labels: {pillion.dev/injection: enforced}, annotations: {pillion.dev/inject: 'false'}", []string{"namespace shop: the label pillion.dev/injection asks for no sidecar"}},
		{"the label, and a template selects it", "labels: {pillion.dev/injection: enabled, team: web}", nil},
	} {
		t.Run(test.title, func(t *testing.T) {
			said := preview(t, to, previewReview(t, "{apiVersion: v1, kind: Namespace, metadata: {name: shop, "+test.metadata+"}}"))
			compareWarnings(t, said, test.want)
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

// Annotating a namespace that runs is no time bomb: whose next pods are refused is said at once.
func TestWhoAnnotatesANamespaceReadsWhichOfItsWorkloadsGetNoNewPods(t *testing.T) {
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
		{"two of four", `"UPDATE"`, "annotations: {pillion.dev/inject: proxy}", []string{"web", "api", "misses", "job"}, []string{
			"namespace shop: 2 of 4 workloads cannot create new pods: Deployment api, Job job. Running pods stay until they are evicted or replaced",
			"new pods of Deployment api are refused: |8080|(Conflict)", "new pods of Job job have a problem: |proxy", "for details run: kubectl pillion explain -n shop deployment/api",
		}},
		{"a dry run", `"UPDATE","dryRun":true`, "annotations: {pillion.dev/inject: proxy}", []string{"web", "api"}, []string{"1 of 2 workloads", "new pods of Deployment api are refused"}},
		{"all is well", `"UPDATE"`, "annotations: {pillion.dev/inject: proxy}", []string{"web", "misses"}, nil},
		{"a new namespace has none", `"CREATE"`, "annotations: {pillion.dev/inject: proxy}", []string{"api"}, nil},
		{"nothing asks any more", `"UPDATE"`, "annotations: {}", []string{"api"}, nil},
		{"no time, and one that cannot be read", `"UPDATE"`, "annotations: {pillion.dev/inject: proxy}", []string{"api", "broken", "slow"}, []string{
			"1 of 1 workloads cannot", "new pods of Deployment api", "for details run", "namespace shop: not looked at, and their next pods may be refused: deployments (there was no time left), 1 more workloads",
		}},
	} {
		t.Run(test.title, func(t *testing.T) {
			t.Parallel()
			review := previewReview(t, "{apiVersion: v1, kind: Namespace, metadata: {name: shop, "+test.metadata+"}}")
			compareWarnings(t, preview(t, newPreview(t, nil, predict.Namespace{}, reads(test.workloads...)), bytes.Replace(review, []byte(`"CREATE"`), []byte(test.operation), 1)), test.want)
		})
	}
}

// API servers make a write again, with all its calls, when somebody else wrote in between. Where
// others write all the time, one that takes long each time never gets through.
func TestAWriteThatIsMadeAgainWaitsForTheWorkloadsOnce(t *testing.T) {
	lists := 0
	to := newPreview(t, nil, predict.Namespace{}, func(o *webhook.PreviewOptions) {
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
	to := newPreview(t, nil, predict.Namespace{})
	web := previewReview(t, fmt.Sprintf(webManifest, "", "", ", annotations: {pillion.dev/inject: shiper}", "", ""))
	for operation, want := range map[string]bool{`"CREATE"`: true, `"CREATE","dryRun":true`: false, `"UPDATE"`: true, `"UPDATE","dryRun":true`: false} {
		said := strings.Join(preview(t, to, bytes.Replace(web, []byte(`"CREATE"`), []byte(operation), 1)), "\n")
		if !strings.Contains(said, "are refused") || strings.Contains(said, "kubectl pillion explain -n shop deploy/web") != want {
			t.Errorf("%s:\n%s", operation, said)
		}
	}
}

// The review of an object whose name the API server has generated does not name it.
func TestANamespaceWithAGeneratedNameIsNamed(t *testing.T) {
	review := previewReview(t, "{apiVersion: v1, kind: Namespace, metadata: {generateName: shop-, name: shop-x7k2p, annotations: {pillion.dev/inject: shiper, shipper.pillion.dev/log-level: loud, pillion.dev/injcet: x}}}")
	said := preview(t, newPreview(t, nil, predict.Namespace{}), bytes.Replace(review, []byte(`"name":"shop-x7k2p","namespace":"shop"`), []byte(`"namespace":"shop"`), 1))
	for _, text := range said {
		if !strings.Contains(text, "namespace shop-x7k2p") {
			t.Error(text)
		}
	}
	if len(said) != 3 {
		t.Errorf("%q", said)
	}
}

// FuzzPreview holds: whatever stands in a review, the object is not refused, and what is said
// is fit to print.
func FuzzPreview(f *testing.F) {
	to := newPreview(f, map[string]string{"pillion.dev/inject": "shipper,proxy"}, predict.Namespace{})
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

func TestTheLimitsOfANamespaceAreReadOnceInAMomentAndNotWithoutTheRight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reads := 0
		var fails error
		text := `{"items":[{"metadata":{"name":"small"}}]}`
		l := &limitReader{
			log: slog.New(slog.DiscardHandler), slots: make(chan struct{}, limitReads), known: cache.NewLRUExpireCache(limitNamespaces),
			get: func(_ context.Context, path ...string) (io.ReadCloser, error) {
				if path[2] == "resourcequotas" {
					return io.NopCloser(strings.NewReader(`{"items":null}`)), nil
				}
				reads++
				return io.NopCloser(strings.NewReader(text)), fails
			},
		}
		want := func(why string, ranges, wantReads int) {
			t.Helper()
			if got := l.read(t.Context(), "shop"); len(got.LimitRanges) != ranges || reads != wantReads {
				t.Errorf("%s: %d LimitRanges, %d reads; want %d and %d", why, len(got.LimitRanges), reads, ranges, wantReads)
			}
		}
		want("the first", 1, 1)
		want("a moment later", 1, 1)
		time.Sleep(limitFresh + 1)
		want("later", 1, 2)
		time.Sleep(limitFresh + 1)
		text = `{"items":[{"metadata":{"name":"` + strings.Repeat("x", limitBytes) + `"}}]}`
		want("more than is read", 0, 3)
		fails = apierrors.NewForbidden(schema.GroupResource{Resource: "limitranges"}, "", errors.New("no right"))
		want("while reads fail", 0, 3)
		time.Sleep(limitFailed + 1)
		want("without the right", 0, 4)
		want("again", 0, 4)
		time.Sleep(limitForbidden + 1)
		fails, text = nil, `{"items":[{}]}`
		want("a minute later", 1, 5)
		l.slots <- struct{}{}
		l.slots <- struct{}{}
		time.Sleep(limitFresh + 1)
		want("while others are read", 0, 5)
	})
}

// A pod that somebody creates is answered at once, whether or not the API server answers Pillion.
func TestAPodThatIsCreatedWaitsForNoListOfLimits(t *testing.T) {
	lists := 0
	limits := namespaceLimits{read: func(context.Context, string) predict.Namespace { lists++; return predict.Namespace{} }}
	for creates, want := range map[bool]int{true: 0, false: 1} {
		lists = 0
		limits.refused(t.Context(), webhook.Injection{Before: map[string]any{}, After: map[string]any{}, Creates: creates})
		if lists != want {
			t.Errorf("the pod itself is created: %t; %d lists, want %d", creates, lists, want)
		}
	}
}

// Who may write LimitRanges in many namespaces must not fill the memory that is for pods.
func TestLargeLimitsAreReadAndNotKept(t *testing.T) {
	l := &limitReader{
		log: slog.New(slog.DiscardHandler), slots: make(chan struct{}, limitReads), known: cache.NewLRUExpireCache(limitNamespaces),
		get: func(context.Context, ...string) (io.ReadCloser, error) {
			return io.NopCloser(strings.NewReader(`{"items":[{"metadata":{"name":"` + strings.Repeat("x", limitKept) + `"}}]}`)), nil
		},
	}
	if got := l.read(t.Context(), "shop"); len(got.LimitRanges) != 1 || len(got.Quotas) != 1 || len(l.known.Keys()) != 0 {
		t.Errorf("%d LimitRanges, %d ResourceQuotas, %d namespaces kept", len(got.LimitRanges), len(got.Quotas), len(l.known.Keys()))
	}
}

// An event tells what is so at every moment, and comes from the sidecar.
func TestWhatIsForetoldByEventsDoesNotDependOnTheMoment(t *testing.T) {
	tmpl := templatestest.Compile(t, `{apiVersion: pillion.dev/v1alpha1, kind: SidecarTemplate, metadata: {name: side}, spec: {
		parameters: [{name: memory, type: quantity, default: 64Mi}],
		inject: {spec: {containers: [{name: side, image: s, resources: {limits: {memory: "${params.memory}"}}}]}}}}`)
	pod := func(kind, restart string, containers ...any) map[string]any {
		return map[string]any{
			"metadata": map[string]any{"ownerReferences": []any{map[string]any{"apiVersion": "batch/v1", "kind": kind, "name": "x", "uid": "1", "controller": true}}},
			"spec":     map[string]any{"restartPolicy": restart, "containers": containers},
		}
	}
	container := func(name, memory string) any {
		return map[string]any{"name": name, "image": "i", "resources": map[string]any{"limits": map[string]any{"memory": memory}}}
	}
	const memory = "It comes from the template side: the parameter side.pillion.dev/memory"
	const exceeded = `pods "web-1" is forbidden: exceeded quota: team, requested: limits.memory=80Mi, used: limits.memory=80Mi, limited: limits.memory=100Mi`
	const usedUp = "{kind: ResourceQuota, metadata: {name: team}, spec: {hard: {limits.memory: 100Mi}}, status: {used: {limits.memory: 80Mi}}}"
	for name, c := range map[string]struct{ limits, failure, kind, restart, app, code, says string }{
		"nothing":                      {},
		"a LimitRange":                 {limits: "{kind: LimitRange, metadata: {name: small}, spec: {limits: [{type: Container, max: {memory: 32Mi}}]}}", code: "RefusedByCluster", says: memory},
		"one that the app breaks, too": {limits: "{kind: LimitRange, metadata: {name: small}, spec: {limits: [{type: Container, max: {memory: 8Mi}}]}}"},
		"a quota":                      {limits: "{kind: ResourceQuota, metadata: {name: team}, spec: {hard: {limits.memory: 48Mi}}}", code: "RefusedByCluster", says: memory},
		"one that is used up":          {limits: usedUp},
		"one that pods failed for":     {limits: usedUp, failure: exceeded, code: "RefusedByCluster", says: memory},
		"another that pods failed for": {limits: usedUp, failure: strings.Replace(exceeded, "team", "teams", 1)},
		"a Job":                        {kind: "Job", restart: "Never", code: "JobNeverFinishes", says: "It comes from the template side"},
	} {
		in, err := limitsOf("[" + c.limits + "]")
		if err != nil {
			t.Fatal(err)
		}
		limits := namespaceLimits{
			read:    func(context.Context, string) predict.Namespace { return in },
			failure: func(context.Context, string, map[string]any) string { return c.failure },
		}
		kind, restart := cmp.Or(c.kind, "ReplicaSet"), cmp.Or(c.restart, "Always")
		before, after := pod(kind, restart, container("app", "16Mi")), pod(kind, restart, container("app", "16Mi"), container("side", "64Mi"))
		var got []string
		for _, e := range limits.foretold(t.Context(), webhook.Injection{Before: before, After: after, Namespace: templates.Namespace{Name: "shop"}, Injected: []*templates.Template{tmpl}}) {
			if got = append(got, string(e.Code)); !strings.Contains(e.Message, c.says) {
				t.Errorf("%s: the event says %q, want %q", name, e.Message, c.says)
			}
		}
		if strings.Join(got, " ") != c.code {
			t.Errorf("%s: %q, want %q", name, got, c.code)
		}
	}
}
