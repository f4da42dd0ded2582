// Command v1.35 prints what Kubernetes 1.35's own code makes of pods: its defaults, and
// what it leaves out when it writes a pod. See the package scheme beside it.
package main

import (
	"fmt"
	"os"

	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/core/install"

	"github.com/pillion-dev/pillion/e2e/defaults/scheme"
)

func main() {
	if err := scheme.Write(os.Stdout, legacyscheme.Scheme); err != nil {
		fmt.Fprintln(os.Stderr, "v1.35:", err)
		os.Exit(1)
	}
}
