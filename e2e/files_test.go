package e2e

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// filesSpec is a template whose sidecar reads a file that is rendered for its pod.
const filesSpec = `
parameters: [{name: level, type: string, default: info}]
files:
  side.conf: "level ${params.level}\tof shop\r\n$(X) $${HOME}\x01 \"ü\"\n\n"
inject:
  spec:
    initContainers:
    - name: NAME
      image: shop.example.com/web:1
      restartPolicy: Always
      args: [quote, /etc/side/side.conf]
      volumeMounts: [{name: NAME-files, mountPath: /etc/side}]
`

func TestAPodHasTheFilesOfItsTemplateAndNoOthers(t *testing.T) {
	t.Parallel()
	name := served(t, filesSpec)
	n := newNamespace(t, asking(name), nil)
	key := name + ".files.pillion.dev/side.conf"
	pod := n.mustCreate(t, newPod("web", nil))
	if got, want := pod.Annotations[key], "level info\tof shop\r\n$(X) ${HOME}\x01 \"ü\"\n\n"; got != want {
		t.Errorf("the file is %q, want %q", got, want)
	}
	mounted := count(pod.Spec.Volumes, func(v corev1.Volume) bool {
		return v.Name == name+"-files" && v.DownwardAPI != nil && v.DownwardAPI.Items[0].FieldRef.FieldPath == "metadata.annotations['"+key+"']"
	})
	if mounted != 1 {
		t.Errorf("the volumes are %s", pretty(pod.Spec.Volumes))
	}
	if _, err := n.preview(t, newPod("own", map[string]string{key: "mine"})); err == nil || !strings.Contains(err.Error(), "differs from the template's file") {
		t.Errorf("a pod that brings a file along: %v", err)
	}
	// The live pod under another name, as kubectl get -o yaml gives it.
	live := newPod("copy", pod.Annotations)
	live.Spec = *pod.Spec.DeepCopy()
	live.Spec.NodeName = ""
	duplicate := n.mustCreate(t, live)
	if duplicate.Annotations[key] != pod.Annotations[key] || duplicate.Annotations[statusAnnotation] != pod.Annotations[statusAnnotation] {
		t.Errorf("the copy has %q", duplicate.Annotations)
	}
}
