package rotation

import (
	"errors"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
)

// apiServer is one that injects pods from its n-th on in each namespace, and refuses the
// one before; late is how often it shows an older version of the configurations.
func apiServer(injectsFrom, late int) (client *fake.Clientset, pods map[string]int, lists *int) {
	client = fake.NewClientset()
	pods, lists = map[string]int{}, new(int)
	client.PrependReactor("create", "pods", func(action k8stesting.Action) (bool, runtime.Object, error) {
		namespace := action.GetNamespace()
		pods[namespace]++
		pod := action.(k8stesting.CreateAction).GetObject().(*corev1.Pod).DeepCopy()
		switch n := pods[namespace]; {
		case n == injectsFrom-1:
			return true, nil, errors.New("failed calling webhook")
		case n >= injectsFrom:
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, corev1.Container{Name: sidecar})
		}
		return true, pod, nil
	})
	meta := func() metav1.ObjectMeta {
		if *lists++; *lists > late {
			return metav1.ObjectMeta{Name: configurationName, ResourceVersion: "10"}
		}
		return metav1.ObjectMeta{Name: configurationName, ResourceVersion: "9"}
	}
	client.PrependReactor("list", "mutatingwebhookconfigurations", func(k8stesting.Action) (bool, runtime.Object, error) {
		return true, &admissionregistrationv1.MutatingWebhookConfigurationList{Items: []admissionregistrationv1.MutatingWebhookConfiguration{{ObjectMeta: meta()}}}, nil
	})
	client.PrependReactor("list", "validatingwebhookconfigurations", func(k8stesting.Action) (bool, runtime.Object, error) {
		return true, &admissionregistrationv1.ValidatingWebhookConfigurationList{Items: []admissionregistrationv1.ValidatingWebhookConfiguration{{ObjectMeta: meta()}}}, nil
	})
	return client, pods, lists
}

func TestTheLoadStartsWhenEveryAPIServerInjectsInEveryNamespace(t *testing.T) {
	t.Parallel()
	const from, late = 4, 5
	first, _, _ := apiServer(1, 0)
	second, pods, lists := apiServer(from, late)
	for range 2 { // the second time the namespaces are there
		if err := makeNamespaces(t.Context(), []kubernetes.Interface{first, second}); err != nil {
			t.Fatal(err)
		}
		for _, namespace := range []string{enforcedNamespace, openNamespace} {
			if pods[namespace] < from {
				t.Errorf("it returns after pod %d in %s through the second API server, which injects from pod %d on", pods[namespace], namespace, from)
			}
		}
		if *lists <= late {
			t.Errorf("it returns after the second API server has shown its configurations %d times, which is late %d times", *lists, late)
		}
		clear(pods)
		*lists = 0
	}
}
