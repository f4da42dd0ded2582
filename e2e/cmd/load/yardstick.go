package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pillion-dev/pillion/e2e/measure"
)

// yardstickArgument has this program serve the yardstick: a webhook as somebody would write
// it who has the patches ready, with encoding/json and the typed objects of k8s.io/api.
const (
	yardstickArgument = "serve-yardstick"
	yardstickHost     = "yardstick.example.com"
)

// An order is what a process that serves the yardstick reads from its standard input.
type order struct {
	Certificate []byte               `json:"certificate"` // PEM, like Key
	Key         []byte               `json:"key"`
	Patches     map[types.UID][]byte `json:"patches"` // Pillion's, by reviews
}

// A yardstick is such a process. It ends when its standard input does.
type yardstick struct {
	cmd    *exec.Cmd
	input  io.Closer
	client *client
}

// startYardstick starts one on one thread, which answers the reviews that Pillion answered
// with the same patches.
func startYardstick(ctx context.Context, pillion *client) (_ *yardstick, err error) {
	o := order{Patches: map[types.UID][]byte{}}
	for _, e := range pillion.exchanges {
		var answer admissionv1.AdmissionReview
		if err := json.Unmarshal(e.answer, &answer); err != nil {
			return nil, err
		}
		o.Patches[answer.Response.UID] = answer.Response.Patch
	}
	if o.Certificate, o.Key, err = measure.SelfSigned(yardstickHost); err != nil {
		return nil, err
	}
	listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, listener.Close()) }() // the process has its own
	file, err := listener.File()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	y := &yardstick{cmd: exec.Command(program, yardstickArgument)}
	y.cmd.Env, y.cmd.ExtraFiles, y.cmd.Stderr = append(os.Environ(), "GOMAXPROCS=1", "GOGC=200"), []*os.File{file}, os.Stderr
	input, err := y.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	y.input = input
	if err := y.cmd.Start(); err != nil {
		return nil, err
	}
	if err := json.NewEncoder(input).Encode(o); err != nil {
		y.stop()
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(o.Certificate)
	y.client = &client{url: "https://" + listener.Addr().String() + "/mutate?timeout=10s", http: &http.Client{Timeout: timeout, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: yardstickHost}, MaxConnsPerHost: connections, MaxIdleConnsPerHost: connections,
	}}}
	for _, e := range pillion.exchanges {
		answer, err := y.client.ask(ctx, e.body)
		if err == nil && string(answer.response.Patch) != string(o.Patches[answer.response.UID]) {
			err = errors.New("it is another patch than Pillion's")
		}
		if err != nil {
			y.stop()
			return nil, fmt.Errorf("the yardstick's answer to review %s: %w", answer.response.UID, err)
		}
		y.client.exchanges = append(y.client.exchanges, exchange{e.body, answer.text})
	}
	return y, nil
}

// stop returns when the process is gone.
func (y *yardstick) stop() {
	if y.client != nil {
		y.client.http.CloseIdleConnections()
	}
	_ = y.input.Close()
	_ = y.cmd.Wait() // it has nothing more to say
}

// serveYardstick does what the order on standard input says, until standard input ends.
func serveYardstick() error {
	input := json.NewDecoder(os.Stdin)
	var o order
	if err := input.Decode(&o); err != nil {
		return fmt.Errorf("reading the order: %w", err)
	}
	certificate, err := tls.X509KeyPair(o.Certificate, o.Key)
	if err != nil {
		return err
	}
	listener, err := net.FileListener(os.NewFile(3, "listener"))
	if err != nil {
		return err
	}
	var protocols http.Protocols
	protocols.SetHTTP1(true) // API servers call Services so
	server := &http.Server{
		Handler: http.HandlerFunc(o.answer), Protocols: &protocols, ReadHeaderTimeout: 5 * time.Second,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}},
	}
	go func() {
		_, _ = io.Copy(io.Discard, io.MultiReader(input.Buffered(), os.Stdin)) // any end is the end
		_ = server.Close()
	}()
	if err := server.ServeTLS(listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// answer decodes a review and its pod, and answers with the patch that it has for it.
func (o order) answer(w http.ResponseWriter, r *http.Request) {
	var review admissionv1.AdmissionReview
	var pod corev1.Pod
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(body, &review)
	}
	if err == nil && review.Request == nil {
		err = errors.New("there is no request")
	}
	if err == nil {
		err = json.Unmarshal(review.Request.Object.Raw, &pod)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	response := &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
	if patch := o.Patches[response.UID]; len(patch) > 0 {
		kind := admissionv1.PatchTypeJSONPatch
		response.Patch, response.PatchType = patch, &kind
	}
	answer, err := json.Marshal(admissionv1.AdmissionReview{TypeMeta: review.TypeMeta, Response: response})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(answer) // a client that has gone away reports it
}
