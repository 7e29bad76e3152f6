// SPDX-License-Identifier: Apache-2.0

package certificate

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"time"
)

// Keys of the Secret. Those without a prefix are the current generation.
const (
	keyAuthority   = "ca.crt"
	keyCertificate = "tls.crt"
	keyKey         = "tls.key"
	prefixNext     = "next-"
	keyPrevious    = "previous-ca.crt"
)

const (
	// validity of a certificate; it is renewed in the last third.
	validity = 90 * 24 * time.Hour
	// settle is for how long API servers have been told to trust a certificate before it is served.
	settle = time.Minute
)

// advance says what the Secret shall hold and what the API server shall trust, as things are: the next step on the way
// that doc.go draws. It may be called as often as one likes.
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
		promote(after) // late is better than never
	case current == nil:
		generation, err := issue(name, now, validity)
		if err != nil {
			return nil, nil, err
		}
		after = map[string][]byte{}
		put(after, "", generation)
	case now.Before(current.NotAfter.Add(-validity / 3)):
		// It is good for a while.
	case next == nil:
		generation, err := issue(name, now, validity)
		if err != nil {
			return nil, nil, err
		}
		put(after, prefixNext, generation)
	case bytes.Contains(trusted, after[prefixNext+keyAuthority]) && now.After(next.NotBefore.Add(earlier+settle)):
		promote(after)
	}
	return after, bundleOf(after), nil
}

func put(secret map[string][]byte, prefix string, createdGeneration *generation) {
	secret[prefix+keyAuthority], secret[prefix+keyCertificate], secret[prefix+keyKey] = createdGeneration.authority, createdGeneration.certificate, createdGeneration.key
}

func promote(secret map[string][]byte) {
	secret[keyPrevious] = secret[keyAuthority]
	for _, key := range []string{keyAuthority, keyCertificate, keyKey} {
		secret[key] = secret[prefixNext+key]
		delete(secret, prefixNext+key)
	}
}

// bundleOf is what has to be trusted.
func bundleOf(secret map[string][]byte) []byte {
	return bytes.Join([][]byte{secret[keyAuthority], secret[prefixNext+keyAuthority], secret[keyPrevious]}, nil)
}

// validFrom returns a certificate of the Secret if it can be served: it fits key, authority and name, and the time.
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
