package ground

import (
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// writeKubeconfig writes to path a kubeconfig for server, whose CA is in the file ca.
// With embed the files that it and user name are copied into it, so that it stands alone.
func writeKubeconfig(path, server, ca string, user *clientcmdapi.AuthInfo, embed bool) error {
	config := clientcmdapi.NewConfig()
	config.Clusters["ground"] = &clientcmdapi.Cluster{Server: server, CertificateAuthority: ca}
	config.AuthInfos["ground"] = user
	config.Contexts["ground"] = &clientcmdapi.Context{Cluster: "ground", AuthInfo: "ground"}
	config.CurrentContext = "ground"
	if embed {
		if err := clientcmdapi.FlattenConfig(config); err != nil {
			return err
		}
	}
	return clientcmd.WriteToFile(*config, path)
}
