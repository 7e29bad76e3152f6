// SPDX-License-Identifier: Apache-2.0

// Package pki issues the certificates of a cluster. An Authority exists in memory: its key is written only if a
// component needs it.
package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"net"
	"time"
)

// validity exceeds the lifetime of such clusters.
const validity = 365 * 24 * time.Hour

// backdate tolerates components whose clock is read slightly before ours.
const backdate = 5 * time.Minute

// Authority signs certificates.
type Authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	// PEM is the authority's own certificate and key.
	PEM Pair
}

// Pair is a certificate and its key, both in PEM.
type Pair struct {
	Certificate []byte
	Key         []byte
}

// Subject is the subject of a certificate. With Addresses or Names the certificate is also a server's.
type Subject struct {
	User      string
	Groups    []string
	Addresses []net.IP
	Names     []string
}

// NewAuthority creates a self-signed authority.
func NewAuthority(name string) (*Authority, error) {
	authority := &Authority{certificate: &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		SubjectKeyId: []byte(rand.Text()),
	}}
	var err error
	if authority.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err == nil {
		authority.PEM, err = authority.sign(authority.certificate, authority.key)
	}
	if err != nil {
		return nil, fmt.Errorf("make authority %s: %w", name, err)
	}
	return authority, nil
}

// Issue issues a certificate for a client, and for a server if the subject has addresses or names.
func (a *Authority) Issue(subject Subject) (Pair, error) {
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: subject.User, Organization: subject.Groups}, IPAddresses: subject.Addresses, DNSNames: subject.Names,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if len(subject.Addresses)+len(subject.Names) > 0 {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, fmt.Errorf("issue certificate for %s: %w", subject.User, err)
	}
	pair, err := a.sign(template, key)
	if err != nil {
		return Pair{}, fmt.Errorf("issue certificate for %s: %w", subject.User, err)
	}
	return pair, nil
}

// sign signs a certificate for a key. The authority's own certificate is its parent.
func (a *Authority) sign(template *x509.Certificate, key *ecdsa.PrivateKey) (Pair, error) {
	template.NotBefore, template.NotAfter = time.Now().Add(-backdate), time.Now().Add(validity)
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key) // with a random serial number
	if err != nil {
		return Pair{}, err
	}
	return encode(der, key)
}

func encode(certificate []byte, key *ecdsa.PrivateKey) (Pair, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return Pair{}, err
	}
	return Pair{
		Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}),
		Key:         pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}),
	}, nil
}

// NewSigningKey creates the key pair that signs and verifies service account tokens.
func NewSigningKey() (private, public []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make signing key: %w", err)
	}
	pair, err := encode(nil, key)
	if err != nil {
		return nil, nil, fmt.Errorf("make signing key: %w", err)
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return nil, nil, fmt.Errorf("make signing key: %w", err)
	}
	return pair.Key, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), nil
}
