package certs

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"testing"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/pillion-dev/pillion/internal/errtest"
)

// FuzzSecret holds for any data of the CA's Secret: it has a sound CA, or an error says why
// not; what is read, written and read again, is the same; and other keys stay.
func FuzzSecret(f *testing.F) {
	first, second, old := yearCA(f), yearCA(f), yearCA(f)
	until := time.Now().Add(time.Hour).UTC()
	data, err := authorities{current: first, next: second, trusted: []trusted{{cert: first.cert}, {cert: old.cert, until: until}}}.write(nil)
	errtest.ExpectNone(f, err)
	leaf := servingSecret(f, newLeaf(f, first, testDNSName, time.Hour)).Data
	add := func(d map[string][]byte) {
		f.Add(d[corev1.TLSCertKey], d[corev1.TLSPrivateKeyKey], d[secretCAKey], d[secretNextCertKey], d[secretNextKeyKey], d[secretTrustedKey])
	}
	add(nil)
	add(data)
	add(leaf)
	for key, value := range data {
		damaged := maps.Clone(data)
		damaged[key] = value[:len(value)/2]
		add(damaged)
	}
	swapped := maps.Clone(data)
	swapped[corev1.TLSPrivateKeyKey] = data[secretNextKeyKey]
	add(swapped)
	for _, header := range []string{"9999-12-31T23:59:59-23:00", "0001-01-01T00:00:00Z", "soon", "2026-01-01T00:00:00.9Z"} {
		dated := maps.Clone(data)
		dated[secretTrustedKey] = bytes.Replace(data[secretTrustedKey], []byte(until.Format(time.RFC3339)), []byte(header), 1)
		add(dated)
	}
	f.Fuzz(func(t *testing.T, cert, key, caCert, nextCert, nextKey, trustedCAs []byte) {
		for _, part := range [][]byte{cert, key, caCert, nextCert, nextKey, trustedCAs} {
			if len(part) > 4<<10 {
				return
			}
		}
		data := map[string][]byte{
			corev1.TLSCertKey: cert, corev1.TLSPrivateKeyKey: key, secretCAKey: caCert, secretNextCertKey: nextCert, secretNextKeyKey: nextKey, secretTrustedKey: trustedCAs, "other": []byte("stays"),
		}
		a, err := readAuthorities(data)
		if (err == nil) != (a.current != nil) {
			t.Fatalf("the CA %v and the error %v", a.current, err)
		}
		if _, parseErr := parseLeaf(cert, key); parseErr != nil && err == nil {
			t.Fatalf("a CA of a pair that is none: %v", parseErr)
		}
		if err != nil {
			if _, err := a.write(data); err == nil {
				t.Fatal("authorities without a CA are written")
			}
			return
		}
		written, err := a.write(data)
		errtest.ExpectNone(t, err)
		read, err := readAuthorities(written)
		if err != nil || !read.equal(a) || !bytes.Equal(read.bundle(), a.bundle()) || string(written["other"]) != "stays" {
			t.Fatalf("%s\nis written as\n%s\n(%v)", data, written, err)
		}
		if again, err := read.write(written); err != nil || !reflect.DeepEqual(again, written) {
			t.Fatalf("%s\nis written again as\n%s\n(%v)", written, again, err)
		}
		published := parseTrusted(a.bundle())
		if len(published) == 0 || !published[0].cert.Equal(a.current.cert) || !contains(published, a.current.cert) || a.next != nil && !contains(published, a.next.cert) {
			t.Fatalf("the bundle\n%s\nlacks the CA", a.bundle())
		}
	})
}

// FuzzBundle holds for any text as a bundle: its CAs, written and read again, are the same
// CAs in the same order, none twice.
func FuzzBundle(f *testing.F) {
	one, other := yearCA(f), yearCA(f)
	both := pemOf(one, other)
	leaf := newLeaf(f, one, testDNSName, time.Hour)
	for _, seed := range [][]byte{nil, both, append(pemOf(one), both...), []byte("text\n" + string(both)), both[:len(both)-20], bytes.ReplaceAll(both, []byte("\n"), []byte("\r\n")),
		encodeTrusted([]trusted{{cert: one.cert, until: time.Now()}}), pemOf(&ca{cert: leaf.tls.Leaf}), []byte("-----BEGIN CERTIFICATE-----\nTrusted-Until: x\n\nAAAA\n-----END CERTIFICATE-----\n")} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) > 8<<10 {
			return
		}
		list := parseTrusted(text)
		for i, c := range list {
			if !c.cert.IsCA || contains(list[:i], c.cert) {
				t.Fatalf("%s is no CA, or is there twice", c.cert.Subject)
			}
		}
		written := encodeTrusted(list)
		again := parseTrusted(written)
		if len(again) != len(list) || !bytes.Equal(encodeTrusted(again), written) {
			t.Fatalf("%s\nis written as\n%s", text, written)
		}
		for i := range list {
			if !again[i].cert.Equal(list[i].cert) || again[i].until.IsZero() != list[i].until.IsZero() {
				t.Fatalf("%s\nis written as\n%s", text, written)
			}
		}
		if err := leaf.verify(text, testDNSName, time.Now()); err == nil && !contains(list, one.cert) && !bytes.Contains(text, []byte("BEGIN")) {
			t.Fatalf("a bundle without the CA verifies its leaf:\n%s", text)
		}
	})
}

// FuzzWebhookConfiguration holds for any JSON as a webhook configuration: the patch gives
// every entry that calls the Service the bundle, and changes nothing else.
func FuzzWebhookConfiguration(f *testing.F) {
	own := service{namespace: testNamespace, name: testService}
	want := pemOf(yearCA(f))
	for _, seed := range []string{
		`{"metadata":{"name":"c","resourceVersion":"1"},"webhooks":[{"name":"a","clientConfig":{"service":{"namespace":"` + testNamespace + `","name":"` + testService + `"},"caBundle":"AAAA"},"future":1},{"name":"b","clientConfig":{"url":"https://x"}}]}`,
		`{"metadata":{"resourceVersion":"1"}}`, `{"metadata":{"resourceVersion":""},"webhooks":[]}`, `{"metadata":{"resourceVersion":"1"},"webhooks":[{"clientConfig":{"service":{"namespace":"` + testNamespace + `","name":"` + testService + `"}}},{},null]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var object admissionv1.MutatingWebhookConfiguration
		if len(text) > 4<<10 || json.Unmarshal(text, &object) != nil {
			return
		}
		// What an API server has stored.
		stored, err := json.Marshal(object)
		errtest.ExpectNone(t, err)
		r := &registration{resourceVersion: object.ResourceVersion}
		for i := range object.Webhooks {
			r.add(i, object.Webhooks[i].Name, &object.Webhooks[i].ClientConfig, own)
		}
		patch, err := bundlePatch(r, r.outdated(want), want)
		errtest.ExpectNone(t, err)
		if object.ResourceVersion == "" {
			return // no stored object is without
		}
		operations, err := jsonpatch.DecodePatch(patch)
		errtest.ExpectNone(t, err)
		patched, err := operations.Apply(stored)
		if err != nil {
			t.Fatalf("%s cannot be applied to %s: %v", patch, stored, err)
		}
		for i := range object.Webhooks {
			if s := object.Webhooks[i].ClientConfig.Service; s != nil && s.Namespace == own.namespace && s.Name == own.name {
				object.Webhooks[i].ClientConfig.CABundle = want
			}
		}
		var got admissionv1.MutatingWebhookConfiguration
		if err := json.Unmarshal(patched, &got); err != nil || !reflect.DeepEqual(got, object) {
			t.Fatalf("%s\nbecame %s (%v)", stored, patched, err)
		}
	})
}

// FuzzServingPair holds for any certificate, key and CA that files or cert-manager's Secret
// give: they are a leaf, or an error says why not; and only a CA that is there and signed
// the leaf counts as its issuer.
func FuzzServingPair(f *testing.F) {
	issuer, other := yearCA(f), yearCA(f)
	secret := servingSecret(f, newLeaf(f, issuer, testDNSName, time.Hour))
	cert, key := secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey]
	own, err := authorities{current: issuer}.write(nil)
	errtest.ExpectNone(f, err)
	f.Add(cert, key, pemOf(issuer))
	f.Add(append(bytes.Clone(cert), pemOf(issuer)...), key, pemOf(other, issuer))
	f.Add(cert, key, pemOf(other))
	f.Add(cert, key, []byte(nil))
	f.Add(cert, own[corev1.TLSPrivateKeyKey], pemOf(issuer))
	f.Add(pemOf(issuer), own[corev1.TLSPrivateKeyKey], pemOf(issuer))
	f.Add(key, cert, key)
	f.Add(cert[:len(cert)/2], key, []byte("text"))
	f.Fuzz(func(t *testing.T, cert, key, caCert []byte) {
		if len(cert) > 4<<10 || len(key) > 4<<10 || len(caCert) > 4<<10 {
			return
		}
		damaged := secret.DeepCopy()
		damaged.Data = map[string][]byte{corev1.TLSCertKey: cert, corev1.TLSPrivateKeyKey: key, secretCAKey: caCert}
		l, err := leafFromSecret(damaged)
		if (l == nil) == (err == nil) {
			t.Fatalf("leaf %v and error %v", l, err)
		}
		if err != nil {
			return
		}
		if l.tls.Leaf == nil || l.tls.PrivateKey == nil || !l.equal(l) {
			t.Fatalf("an incomplete leaf: %+v", l)
		}
		if l.issuer != nil && !contains(parseTrusted(caCert), l.issuer) {
			t.Fatalf("the issuer %s is not in the CA's file", l.issuer.Subject)
		}
		if err := l.verify(caCert, testDNSName, time.Now()); err == nil && l.issuer == nil && len(parseTrusted(caCert)) > 0 && len(l.tls.Certificate) == 1 {
			t.Fatalf("the CA's file verifies the leaf, and has no issuer of it:\n%s", caCert)
		}
	})
}
