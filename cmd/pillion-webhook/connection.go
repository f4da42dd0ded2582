package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// dialTimeout bounds how long the dial of a connection to the API server takes.
const dialTimeout = 2 * time.Second

// restConfig returns the connection to the API server, of a kubeconfig or, for "", of the pod's service account.
func restConfig(kubeconfig string) (*rest.Config, error) {
	var config *rest.Config
	var err error
	if kubeconfig == "" {
		config, err = rest.InClusterConfig()
	} else {
		config, err = clientcmd.BuildConfigFromFlags("", kubeconfig)
	}
	if errors.Is(err, rest.ErrNotInCluster) {
		return nil, usageError{errors.New("not running in a pod of a cluster: --kubeconfig is required")}
	}
	if err != nil {
		return nil, fmt.Errorf("finding the API server: %w", err)
	}
	pingConnections()
	// A short dial: the next try finds an API server that was away, not the end of a try that began long ago.
	config.Dial = (&net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}).DialContext
	config.UserAgent = "pillion/" + version
	// The process watches a handful of resources. The default of 5 requests a second
	// would only delay the start.
	config.QPS, config.Burst = 50, 100
	return config, nil
}

// pingConnections has a dead connection to the API server found within three seconds: after a second of
// silence client-go sends a ping. Watches go on on another connection then. client-go reads these settings from
// the environment only. A variable that is set stays as it is.
func pingConnections() {
	for name, seconds := range map[string]string{"HTTP2_READ_IDLE_TIMEOUT_SECONDS": "1", "HTTP2_PING_TIMEOUT_SECONDS": "2"} {
		if _, ok := os.LookupEnv(name); !ok {
			_ = os.Setenv(name, seconds) // fails for a bad name only
		}
	}
}
