package ground

import (
	"context"
	"fmt"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// startMoreAPIServers starts one kube-apiserver more for each port, with more flags at the
// end, and writes a kubeconfig for it.
func (g *ControlPlane) startMoreAPIServers(ctx context.Context, etcdPort int, ports []int, flags []string, late time.Duration) error {
	for i, port := range ports {
		name := "kube-apiserver-" + strconv.Itoa(i+2)
		pki := func(name string) string { return g.path("pki", name) }
		user := &clientcmdapi.AuthInfo{ClientCertificate: pki("admin.crt"), ClientKey: pki("admin.key")}
		server := "https://" + g.at(port)
		if err := writeKubeconfig(g.adminKubeconfig(i+1), server, pki("ca.crt"), user, true); err != nil {
			return err
		}
		g.more = append(g.more, server)
		etcd, err := newCable(g.life, g.at(0), func() (string, bool) { return g.at(etcdPort), true })
		if err != nil {
			return err
		}
		process, err := startProcess(g.fork, name, g.Tool("kube-apiserver"), append(g.apiServerFlags(etcd.port(), port), flags...), g.Env(), g.Log(name))
		if err != nil {
			return err
		}
		g.programs = append(g.programs, process)
		config, err := clientcmd.BuildConfigFromFlags("", g.adminKubeconfig(i+1))
		if err != nil {
			return err
		}
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			return err
		}
		err = process.until(ctx, apiServerLimit, func(ctx context.Context) error {
			if err := client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error(); err != nil {
				return err
			}
			_, err := client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceDefault, metav1.GetOptions{})
			return err
		})
		if err != nil {
			return err
		}
		etcd.late.Store(int64(late)) // a start that is late is only slow
	}
	return nil
}

// Kubeconfigs are the paths of an admin's kubeconfig for each kube-apiserver; the first is
// Kubeconfig.
func (g *ControlPlane) Kubeconfigs() []string {
	var paths []string
	for i := range 1 + len(g.more) {
		paths = append(paths, g.adminKubeconfig(i))
	}
	return paths
}

func (g *ControlPlane) adminKubeconfig(i int) string {
	if i == 0 {
		return g.Kubeconfig()
	}
	return fmt.Sprintf("%s-%d", g.Kubeconfig(), i+1)
}

// apiServer is the URL of the kube-apiserver that replica n talks to: all in turn.
func (g *ControlPlane) apiServer(n int) string {
	all := append([]string{g.server}, g.more...)
	return all[n%len(all)]
}
