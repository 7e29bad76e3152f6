// SPDX-License-Identifier: Apache-2.0

package certificate

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"time"
)

// generation is a certificate with its key, and the certificate of its CA, in PEM.
type generation struct{ authority, certificate, key []byte }

// clockSkew is how much clocks may differ.
const clockSkew = 10 * time.Minute

// issue creates a generation for a DNS name.
func issue(name string, now time.Time, validity time.Duration) (*generation, error) {
	authority, authorityKey, err := newTemplate("ktsn-operator's authority", now, validity)
	if err != nil {
		return nil, err
	}
	authority.IsCA, authority.BasicConstraintsValid, authority.MaxPathLenZero = true, true, true
	authority.KeyUsage = x509.KeyUsageCertSign
	authorityDER, err := x509.CreateCertificate(rand.Reader, authority, authority, &authorityKey.PublicKey, authorityKey)
	if err != nil {
		return nil, fmt.Errorf("create a CA: %w", err)
	}
	leaf, leafKey, err := newTemplate(name, now, validity)
	if err != nil {
		return nil, err
	}
	leaf.DNSNames, leaf.BasicConstraintsValid = []string{name}, true
	leaf.KeyUsage, leaf.ExtKeyUsage = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, authority, &leafKey.PublicKey, authorityKey)
	if err != nil {
		return nil, fmt.Errorf("create a certificate: %w", err)
	}
	keyDER, err := x509.MarshalECPrivateKey(leafKey)
	if err != nil {
		return nil, fmt.Errorf("encode a key: %w", err)
	}
	return &generation{encode("CERTIFICATE", authorityDER), encode("CERTIFICATE", leafDER), encode("EC PRIVATE KEY", keyDER)}, nil
}

func newTemplate(name string, now time.Time, validity time.Duration) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("create a key: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, nil, fmt.Errorf("create a serial number: %w", err)
	}
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name},
		NotBefore: now.Add(-clockSkew), NotAfter: now.Add(validity),
	}, key, nil
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
