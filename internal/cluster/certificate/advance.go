// SPDX-License-Identifier: Apache-2.0

package certificate

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"time"

	"k8s.io/client-go/util/cert"
)

// Keys of the Secret. Keys without a prefix are the current generation.
const (
	keyAuthority   = "ca.crt"
	keyCertificate = "tls.crt"
	keyKey         = "tls.key"
	prefixNext     = "next-"
	keyPrevious    = "previous-ca.crt"
)

const (
	// validity is the lifetime of a certificate; it is renewed in the last third.
	validity = 90 * 24 * time.Hour
	// trustDelay is how long a certificate is in the CA bundle before it is served.
	trustDelay = time.Minute
	// clockSkew is how long before its issue a certificate begins to be valid, which client-go decides.
	clockSkew = time.Hour
)

// advance returns the next content of the Secret and the CA bundle, one step of the sequence in doc.go. It is idempotent.
func advance(name string, secret map[string][]byte, trusted []byte) (after map[string][]byte, bundle []byte, err error) {
	now := time.Now()
	after = map[string][]byte{}
	for _, key := range []string{keyAuthority, keyCertificate, keyKey, prefixNext + keyAuthority, prefixNext + keyCertificate,
		prefixNext + keyKey, keyPrevious} {
		if len(secret[key]) > 0 {
			after[key] = secret[key]
		}
	}
	current, next := validFrom(after, "", name, now), validFrom(after, prefixNext, name, now)
	switch {
	case current == nil && next != nil:
		promote(after) // the current one has expired: do not wait for trustDelay
	case current == nil:
		after = map[string][]byte{}
		err = issue(after, "", name)
	case now.Before(current.NotAfter.Add(-validity / 3)):
		// It is not in its last third yet.
	case next == nil:
		err = issue(after, prefixNext, name)
	case bytes.Contains(trusted, after[prefixNext+keyAuthority]) && now.After(next.NotBefore.Add(clockSkew+trustDelay)):
		promote(after)
	}
	bundle = bytes.Join([][]byte{after[keyAuthority], after[prefixNext+keyAuthority], after[keyPrevious]}, nil)
	return after, bundle, err
}

// issue creates a generation for a DNS name: a certificate with its key, and the CA that signed it.
func issue(secret map[string][]byte, prefix, name string) error {
	chain, key, err := cert.GenerateSelfSignedCertKeyWithOptions(cert.SelfSignedCertKeyOptions{Host: name, MaxAge: clockSkew + validity})
	if err != nil {
		return fmt.Errorf("issue a certificate: %w", err)
	}
	leaf, authority := pem.Decode(chain) // the CA follows the certificate
	secret[prefix+keyAuthority], secret[prefix+keyCertificate], secret[prefix+keyKey] = authority, pem.EncodeToMemory(leaf), key
	return nil
}

func promote(secret map[string][]byte) {
	secret[keyPrevious] = secret[keyAuthority]
	for _, key := range []string{keyAuthority, keyCertificate, keyKey} {
		secret[key] = secret[prefixNext+key]
		delete(secret, prefixNext+key)
	}
}

// validFrom returns a certificate of the Secret if it can be served: key, CA, name and time are valid. Otherwise it returns nil.
func validFrom(secret map[string][]byte, prefix, name string, now time.Time) *x509.Certificate {
	pair, err := tls.X509KeyPair(secret[prefix+keyCertificate], secret[prefix+keyKey])
	if err != nil {
		return nil
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(secret[prefix+keyAuthority])
	if _, err := pair.Leaf.Verify(x509.VerifyOptions{DNSName: name, Roots: roots, CurrentTime: now}); err != nil {
		return nil
	}
	return pair.Leaf
}
