package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/rest"

	"github.com/pillion-dev/pillion/controller/clientset"
	"github.com/pillion-dev/pillion/injector/owner"
	"github.com/pillion-dev/pillion/offline/predict"
)

// Bounds of the reads of what limits the pods of a namespace. They are for previews and
// forecasts: what is not read in time is not foretold.
const (
	// limitReads is how many namespaces are read at the same time.
	limitReads = 2
	// limitTime bounds a read, limitBytes the answer to it.
	limitTime  = 250 * time.Millisecond
	limitBytes = 256 << 10
	// limitFresh is how long an answer counts: a release has many workloads in one namespace.
	limitFresh = time.Second
	// limitForbidden is how long nothing is read after the right to do so was missing, limitFailed
	// how long a namespace is not read after another failure: while no API server answers, previews
	// do not wait for one again and again.
	limitForbidden = time.Minute
	limitFailed    = 10 * time.Second
	// limitNamespaces bounds the answers that are kept, limitKept the size of each: decoded, it
	// takes ten times as much.
	limitNamespaces = 32
	limitKept       = 16 << 10
)

// limitReader reads the LimitRanges and ResourceQuotas of namespaces, and ReplicaSets that get no
// pods.
type limitReader struct {
	// get answers a read of a path with JSON.
	get   func(ctx context.Context, path ...string) (io.ReadCloser, error)
	log   *slog.Logger
	slots chan struct{}
	// known are the answers of a moment ago, by namespace. That of everywhere says that nothing is
	// read.
	known *cache.LRUExpireCache
}

// everywhere stands for all namespaces among the answers.
const everywhere = ""

// limits returns what limits pods, its zero value where the settings do not want it read. The reader has
// a connection and a rate of its own, and needs the verb list on limitranges and resourcequotas, and get
// on replicasets.
func (c serveConfig) limits(config *rest.Config, log *slog.Logger) namespaceLimits {
	if !c.PreviewLimits {
		return namespaceLimits{}
	}
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = 20, 40
	client := clientset.NewOrDie(config).CoreV1().RESTClient()
	get := func(ctx context.Context, path ...string) (io.ReadCloser, error) {
		return client.Get().AbsPath(path...).SetHeader("Accept", "application/json").Stream(ctx)
	}
	reader := &limitReader{get: get, log: log, slots: make(chan struct{}, limitReads), known: cache.NewLRUExpireCache(limitNamespaces)}
	return namespaceLimits{read: reader.read, failure: reader.failure}
}

// read returns what limits the pods of a namespace, and nothing where it is not found out in
// time: previews are advice.
func (l *limitReader) read(ctx context.Context, namespace string) predict.Namespace {
	for _, of := range []string{everywhere, namespace} {
		if known, ok := l.known.Get(of); ok {
			return known.(predict.Namespace)
		}
	}
	select {
	case l.slots <- struct{}{}:
		defer func() { <-l.slots }()
	default:
		l.log.Debug("not reading the limits of a namespace for a preview: others are being read", "namespace", namespace)
		return predict.Namespace{}
	}
	ctx, cancel := context.WithTimeout(ctx, limitTime)
	defer cancel()
	var ranges corev1.LimitRangeList
	var quotas corev1.ResourceQuotaList
	size, err := l.decode(ctx, &ranges, "/api/v1/namespaces", namespace, "limitranges")
	if err == nil {
		var more int
		more, err = l.decode(ctx, &quotas, "/api/v1/namespaces", namespace, "resourcequotas")
		size += more
	}
	if err != nil {
		l.log.Debug("the limits of a namespace could not be read for a preview", "namespace", namespace, "error", err)
		if apierrors.IsForbidden(err) {
			l.known.Add(everywhere, predict.Namespace{}, limitForbidden)
		} else {
			l.known.Add(namespace, predict.Namespace{}, limitFailed)
		}
		return predict.Namespace{}
	}
	found := predict.Namespace{LimitRanges: ranges.Items, Quotas: quotas.Items}
	if size <= limitKept {
		l.known.Add(namespace, found, limitFresh)
	}
	return found
}

// failure returns the API server's words about the pods that the ReplicaSet of a pod could not
// create, "" for none. Other controllers say it nowhere but in events.
func (l *limitReader) failure(ctx context.Context, namespace string, pod map[string]any) string {
	of, _ := owner.Controller(pod)
	if of.APIVersion != appsv1.SchemeGroupVersion.String() || of.Kind != "ReplicaSet" {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, limitTime)
	defer cancel()
	var set appsv1.ReplicaSet
	if _, err := l.decode(ctx, &set, "/apis/apps/v1/namespaces", namespace, "replicasets", of.Name); err != nil || string(set.UID) != of.UID {
		l.log.Debug("the ReplicaSet of a pod could not be read", "namespace", namespace, "name", of.Name, "error", err)
		return ""
	}
	for _, c := range set.Status.Conditions {
		if c.Type == appsv1.ReplicaSetReplicaFailure && c.Status == corev1.ConditionTrue {
			return c.Message
		}
	}
	return ""
}

// decode reads an object or a list, and returns how many bytes of JSON it has.
func (l *limitReader) decode(ctx context.Context, into any, path ...string) (size int, err error) {
	body, err := l.get(ctx, path...)
	if err != nil {
		return 0, err
	}
	defer body.Close()
	text, err := io.ReadAll(io.LimitReader(body, limitBytes+1))
	if err == nil && len(text) > limitBytes {
		err = fmt.Errorf("the answer takes more than %d bytes", limitBytes)
	}
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		return 0, fmt.Errorf("reading %s: %w", strings.Join(path, "/"), err)
	}
	return len(text), nil
}
