// SPDX-License-Identifier: Apache-2.0

package certificate

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"time"
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
)

// advance returns the next content of the Secret and the CA bundle, one step of the sequence in doc.go. It is idempotent.
func advance(name string, secret map[string][]byte, trusted []byte, now time.Time) (after map[string][]byte, bundle []byte, err error) {
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
		generation, err := issue(name, now, validity)
		if err != nil {
			return nil, nil, err
		}
		after = map[string][]byte{}
		store(after, "", generation)
	case now.Before(current.NotAfter.Add(-validity / 3)):
		// It is not in its last third yet.
	case next == nil:
		generation, err := issue(name, now, validity)
		if err != nil {
			return nil, nil, err
		}
		store(after, prefixNext, generation)
	case bytes.Contains(trusted, after[prefixNext+keyAuthority]) && now.After(next.NotBefore.Add(clockSkew+trustDelay)):
		promote(after)
	}
	return after, bundleOf(after), nil
}

func store(secret map[string][]byte, prefix string, g *generation) {
	secret[prefix+keyAuthority], secret[prefix+keyCertificate], secret[prefix+keyKey] = g.authority, g.certificate, g.key
}

func promote(secret map[string][]byte) {
	secret[keyPrevious] = secret[keyAuthority]
	for _, key := range []string{keyAuthority, keyCertificate, keyKey} {
		secret[key] = secret[prefixNext+key]
		delete(secret, prefixNext+key)
	}
}

// bundleOf returns the CA bundle.
func bundleOf(secret map[string][]byte) []byte {
	return bytes.Join([][]byte{secret[keyAuthority], secret[prefixNext+keyAuthority], secret[keyPrevious]}, nil)
}

// validFrom returns a certificate of the Secret if it can be served: key, CA, name and time are valid. Otherwise it returns nil.
func validFrom(secret map[string][]byte, prefix, name string, now time.Time) *x509.Certificate {
	pair, err := tls.X509KeyPair(secret[prefix+keyCertificate], secret[prefix+keyKey])
	if err != nil {
		return nil
	}
	roots := x509.NewCertPool()
	if block, _ := pem.Decode(secret[prefix+keyAuthority]); block == nil || !roots.AppendCertsFromPEM(secret[prefix+keyAuthority]) {
		return nil
	}
	if _, err := pair.Leaf.Verify(x509.VerifyOptions{DNSName: name, Roots: roots, CurrentTime: now}); err != nil {
		return nil
	}
	return pair.Leaf
}
