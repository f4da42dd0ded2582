package certs

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"strings"
)

// Fingerprint is the SHA-256 of a certificate, by which people and the list of revoked CAs
// name a CA.
type Fingerprint [sha256.Size]byte

// FingerprintOf returns the fingerprint of a certificate.
func FingerprintOf(cert *x509.Certificate) Fingerprint { return sha256.Sum256(cert.Raw) }

// String returns the fingerprint as 64 lower case hex digits.
func (f Fingerprint) String() string { return hex.EncodeToString(f[:]) }

// ParseFingerprint reads a whole fingerprint, in any form that [FingerprintDigits] reads.
func ParseFingerprint(text string) (Fingerprint, error) {
	var f Fingerprint
	digits, err := FingerprintDigits(text)
	if err != nil {
		return f, err
	}
	if len(digits) != hex.EncodedLen(len(f)) {
		return f, fmt.Errorf("%q has %d hex digits; a SHA-256 fingerprint has %d", text, len(digits), hex.EncodedLen(len(f)))
	}
	_, err = hex.Decode(f[:], []byte(digits))
	return f, err
}

// FingerprintDigits returns the lower case hex digits of a fingerprint or of its beginning.
// It accepts upper case, colons, and the line that `openssl x509 -fingerprint -sha256`
// prints.
func FingerprintDigits(text string) (string, error) {
	digits := strings.TrimSpace(text)
	if label, value, found := strings.Cut(digits, "="); found {
		if !strings.EqualFold(label, "sha256 fingerprint") {
			return "", fmt.Errorf("%q is not a SHA-256 fingerprint", text)
		}
		digits = value
	}
	digits = strings.ToLower(strings.ReplaceAll(digits, ":", ""))
	if digits == "" || strings.Trim(digits, "0123456789abcdef") != "" || len(digits) > hex.EncodedLen(sha256.Size) {
		return "", fmt.Errorf("%q is not a SHA-256 fingerprint: it has %d hex digits, which colons may separate", text, hex.EncodedLen(sha256.Size))
	}
	return digits, nil
}
