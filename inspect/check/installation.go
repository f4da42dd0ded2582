package check

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/version"
	build "k8s.io/component-base/version"

	"github.com/pillion-dev/pillion/inspect/state"
	"github.com/pillion-dev/pillion/templates/show"
)

var (
	// nativeSidecars is the oldest Kubernetes that has them.
	nativeSidecars = version.MajorMinor(1, 29)
	// OldestKubernetes is the oldest version that Pillion is tested on, and that its chart installs on.
	OldestKubernetes = version.MajorMinor(1, 35)
	// NewestKubernetes is the newest version that the libraries of this build know.
	NewestKubernetes = version.MustParseMajorMinor(build.DefaultKubeBinaryVersion)
)

func apiServer(f *Facts, _ Settings) []Finding {
	switch err := f.Kubernetes.Err; {
	case apierrors.IsUnauthorized(err):
		return []Finding{failed(fmt.Sprintf("the API server does not accept your credentials, which may have ended: %s", oneLine(err.Error())), "kubectl config view --minify", "kubectl auth whoami")}
	case isMissingRight(err):
		return []Finding{unread(err)}
	case err != nil:
		return []Finding{failed(fmt.Sprintf("the API server does not answer: %s", oneLine(err.Error())), "kubectl cluster-info", "kubectl config get-contexts")}
	}
	v := f.Kubernetes.Value
	switch {
	case v.LessThan(nativeSidecars):
		return []Finding{failed(fmt.Sprintf("the API server is of version %s, which has no native sidecars: a sidecar would keep a Job from ending. Use Kubernetes %s or later", v, OldestKubernetes), "kubectl version")}
	case v.LessThan(OldestKubernetes):
		return []Finding{failed(fmt.Sprintf("the API server is of version %s; Pillion supports %s and later", v, OldestKubernetes), "kubectl version")}
	case v.GreaterThan(NewestKubernetes):
		return []Finding{fine(fmt.Sprintf("the API server is of version %s; this pillion knows the fields of pods up to %s, and leaves newer ones as they are", v, NewestKubernetes))}
	}
	return nil
}

// settings returns why the settings are not known. Without them most checks cannot tell anything.
func settings(f *Facts) error {
	switch err := f.Settings.Err; {
	case errors.Is(err, ErrAbsent):
		return nothingError{"not looked at: Pillion's Deployment was not found"}
	case err != nil && !isMissingRight(err):
		return nothingError{"not looked at: Pillion's Deployment could not be read"}
	default:
		return err
	}
}

func deploymentAvailable(f *Facts, s Settings) []Finding {
	switch err := f.Settings.Err; {
	case errors.Is(err, ErrAbsent):
		return []Finding{failed(err.Error(), "kubectl get deployments -A -l app.kubernetes.io/name=pillion", "pillion check --pillion-namespace NAMESPACE", "pillion check --pillion-namespace NAMESPACE --pillion-selector app.kubernetes.io/instance=RELEASE")}
	case err != nil:
		return []Finding{unread(err)}
	case f.Deployment.Err != nil:
		return []Finding{unread(f.Deployment.Err)}
	}
	d := f.Deployment.Value
	if d.Given {
		return skipped("not looked at: --replica names other replicas to ask")
	}
	pods := fmt.Sprintf("kubectl -n %s get pods -l %s", s.Namespace, s.selector())
	describe := fmt.Sprintf("kubectl -n %s describe pods -l %s", s.Namespace, s.selector())
	switch {
	case d.Wanted == 0:
		return []Finding{failed(fmt.Sprintf("Deployment %s wants no replica: pods come without their sidecars, and are refused in enforced namespaces", d.Name), fmt.Sprintf("kubectl -n %s scale deployment %s --replicas=2", s.Namespace, d.Name))}
	case d.Available == 0:
		return []Finding{failed(fmt.Sprintf("none of the %d replicas of Deployment %s is available: pods come without their sidecars, and are refused in enforced namespaces", d.Wanted, d.Name), pods, describe)}
	case d.Available < d.Wanted:
		return []Finding{warning(fmt.Sprintf("%d of %d replicas of Deployment %s are available", d.Available, d.Wanted, d.Name), pods, describe)}
	case d.Updated < d.Wanted:
		return []Finding{warning(fmt.Sprintf("%d of %d replicas of Deployment %s are of its newest version", d.Updated, d.Wanted, d.Name), fmt.Sprintf("kubectl -n %s rollout status deployment %s", s.Namespace, d.Name))}
	case d.Wanted == 1:
		return []Finding{warning(fmt.Sprintf("Deployment %s has one replica: while it is replaced, pods of enforced namespaces wait", d.Name), fmt.Sprintf("kubectl -n %s scale deployment %s --replicas=2", s.Namespace, d.Name))}
	}
	return nil
}

func serviceLeads(f *Facts, s Settings) []Finding {
	service := f.Service.Value
	if isNotFound(f.Service.Err) {
		return []Finding{failed(fmt.Sprintf("there is no Service %s in namespace %s, so API servers cannot reach Pillion", s.Service, s.Namespace), s.restore()...)}
	}
	if f.Service.Err != nil {
		return []Finding{unread(f.Service.Err)}
	}
	d := f.Deployment.Value
	for key, want := range service.Spec.Selector {
		if d.PodLabels[key] != want {
			return []Finding{failed(fmt.Sprintf("Service %s selects pods with %s=%s, and those of Deployment %s have not this label", s.Service, key, want, d.Name), s.replace())}
		}
	}
	for _, port := range service.Spec.Ports {
		if port.Port == webhookServicePort {
			return nil
		}
	}
	return []Finding{failed(fmt.Sprintf("Service %s has no port 443, which API servers call", s.Service), s.replace())}
}

// answering returns the replicas that answer.
func (f *Facts) answering() []state.Replica {
	return slices.DeleteFunc(slices.Clone(f.Replicas.Value), func(r state.Replica) bool { return !r.Answers })
}

// answering returns why no replica answers, nil if one does.
func answering(f *Facts) error {
	switch {
	case f.Replicas.Err != nil:
		return f.Replicas.Err
	case len(f.Replicas.Value) == 0:
		return nothingError{"not looked at: no replica runs that could be asked"}
	case len(f.answering()) == 0:
		return nothingError{"not looked at: no replica answers"}
	}
	return nil
}

func replicasReady(f *Facts, s Settings) []Finding {
	all := f.Replicas.Value
	if len(all) == 0 {
		return []Finding{failed(fmt.Sprintf("no pod of Pillion runs in namespace %s", s.Namespace), fmt.Sprintf("kubectl -n %s describe pods -l %s", s.Namespace, s.selector()))}
	}
	var found []Finding
	for _, r := range all {
		logs, metrics := fmt.Sprintf("kubectl -n %s logs %s", s.Namespace, r.Name), fmt.Sprintf("kubectl get --raw /api/v1/namespaces/%s/pods/%s:8080/proxy/metrics", s.Namespace, r.Name)
		if f.Deployment.Value.Given { // the replicas are URLs
			logs, metrics = s.logs(), "curl "+r.Name+"/metrics"
		}
		switch {
		case r.Missing != "":
			found = append(found, failed(fmt.Sprintf("replica %s is not ready: %s", r.Name, oneLine(r.Missing)), logs))
		case !r.Answers:
			found = append(found, failed(fmt.Sprintf("replica %s gives no metrics", r.Name), metrics))
		}
	}
	return found
}

func oneLine(text string) string {
	return strings.Join(strings.Fields(strings.ReplaceAll(text, "\n", "; ")), " ")
}

func sameVersion(f *Facts, s Settings) []Finding {
	all := f.answering()
	by := map[string][]string{}
	for _, r := range all {
		if r.Version != "" {
			by[r.Version] = append(by[r.Version], r.Name)
		}
	}
	versions := slices.Sorted(maps.Keys(by))
	switch {
	case len(versions) == 0:
		return skipped("not looked at: no replica says which version it has")
	case len(versions) > 1:
		return []Finding{warning(fmt.Sprintf("the replicas are of the versions %s: what a pod gets depends on the replica that answers", strings.Join(versions, ", ")), fmt.Sprintf("kubectl -n %s rollout status deployment -l %s", s.Namespace, s.selector()))}
	case versions[0] != f.Version:
		return []Finding{warning(fmt.Sprintf("the replicas are of version %s, and this pillion is %s: it compiles the library's templates as its own version has them. Use the pillion of the replicas' version", versions[0], f.Version),
			fmt.Sprintf("kubectl -n %s get deployments -l %s -o wide", s.Namespace, s.selector()))}
	}
	return nil
}

// oldCache is an age of a cache that no healthy replica has: it checks every few seconds.
const oldCache = 30 * time.Second

func cachesCurrent(f *Facts, s Settings) []Finding {
	all := f.answering()
	var found []Finding
	for _, r := range all {
		for _, cache := range slices.Sorted(maps.Keys(r.CacheAgeSeconds)) {
			if age := time.Duration(r.CacheAgeSeconds[cache] * float64(time.Second)); age > oldCache {
				found = append(found, warning(fmt.Sprintf("replica %s knew %s for certain %s ago: it does not reach the API server, or its watch fell silent", r.Name, cache, age.Round(time.Second)), s.logs()))
			}
		}
	}
	return found
}

func disruptionBudget(f *Facts, s Settings) []Finding {
	d := f.Deployment.Value
	covered := false
	for _, b := range f.Budgets.Value {
		if !selects(b.Spec.Selector, d.PodLabels) {
			continue
		}
		covered = true
		if b.Status.DisruptionsAllowed == 0 && d.Available > 0 && d.Available >= d.Wanted {
			return []Finding{warning(fmt.Sprintf("PodDisruptionBudget %s lets no replica go, although all are available: the drain of a node waits forever", b.Name), fmt.Sprintf("kubectl -n %s describe pdb %s", s.Namespace, b.Name))}
		}
	}
	if !covered && d.Wanted > 1 {
		remedy := fmt.Sprintf("kubectl -n %s create pdb %s --selector=%s --max-unavailable=1", s.Namespace, d.Name, s.selector())
		if s.Release != "" { // Helm takes over no object that it did not make
			remedy = fmt.Sprintf("helm -n %s upgrade %s CHART --reset-then-reuse-values --set podDisruptionBudget.enabled=true", s.Namespace, s.Release)
		}
		return []Finding{warning("no PodDisruptionBudget covers Pillion's pods: the drain of nodes may take all replicas at once", remedy)}
	}
	return nil
}

// webhookServicePort is the port of Pillion's Service that API servers call.
const webhookServicePort int32 = 443

// WebhookPort is the name of the port of Pillion's container that API servers reach by its Service.
const WebhookPort = "webhook"

func networkOpen(f *Facts, s Settings) []Finding {
	d := f.Deployment.Value
	policies := f.Networks.Value
	var selecting []string
	for _, p := range policies {
		ingress := len(p.Spec.PolicyTypes) == 0 || slices.Contains(p.Spec.PolicyTypes, networkingv1.PolicyTypeIngress)
		if !ingress || !selects(&p.Spec.PodSelector, d.PodLabels) {
			continue
		}
		selecting = append(selecting, p.Name)
		if slices.ContainsFunc(p.Spec.Ingress, func(rule networkingv1.NetworkPolicyIngressRule) bool { return opens(rule, d.WebhookPort) }) {
			return nil // policies add up
		}
	}
	if len(selecting) == 0 {
		return nil
	}
	remedy := []string{fmt.Sprintf("kubectl -n %s describe networkpolicy %s", s.Namespace, selecting[0])}
	if s.Release != "" {
		remedy = append([]string{fmt.Sprintf("helm -n %s upgrade %s CHART --reset-then-reuse-values --set networkPolicy.enabled=true", s.Namespace, s.Release)}, remedy...)
	}
	return []Finding{failed(fmt.Sprintf("the NetworkPolicies of Pillion's pods (%s) let nothing in to the port %d, which API servers call; networkPolicy.enabled=true adds one that does", show.Some(selecting, mostNamed), d.WebhookPort), remedy...)}
}

// opens reports whether a rule opens the webhook's port, which has this number, to somebody.
func opens(rule networkingv1.NetworkPolicyIngressRule, number int32) bool {
	return len(rule.Ports) == 0 || slices.ContainsFunc(rule.Ports, func(p networkingv1.NetworkPolicyPort) bool {
		if p.Port == nil || *p.Port == intstr.FromString(WebhookPort) || *p.Port == intstr.FromInt32(number) {
			return true
		}
		return p.EndPort != nil && p.Port.IntVal <= number && number <= *p.EndPort
	})
}
