// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net"
	"testing"
)

func certificate(t *testing.T, pair Pair) *x509.Certificate {
	t.Helper()
	if _, err := tls.X509KeyPair(pair.Certificate, pair.Key); err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(pair.Certificate)
	parsed, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func authority(t *testing.T, name string) *Authority {
	t.Helper()
	created, err := NewAuthority(name)
	if err != nil {
		t.Fatal(err)
	}
	return created
}

func TestCertificatesBelongToAuthority(t *testing.T) {
	issuer, other := authority(t, "own"), authority(t, "other")
	pair, err := issuer.Issue(Subject{User: "system:node:node1", Groups: []string{"system:nodes"}, Addresses: []net.IP{net.IPv4(192, 0, 2, 1)}})
	if err != nil {
		t.Fatal(err)
	}
	issued := certificate(t, pair)
	verify := func(by *Authority, usage x509.ExtKeyUsage) error {
		roots := x509.NewCertPool()
		roots.AddCert(certificate(t, by.PEM))
		_, err := issued.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{usage}})
		return err
	}
	for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth} {
		if err := verify(issuer, usage); err != nil {
			t.Error(err)
		}
		if err := verify(other, usage); err == nil {
			t.Error("another authority vouches for it")
		}
	}
	if issued.Subject.CommonName != "system:node:node1" || issued.Subject.Organization[0] != "system:nodes" {
		t.Errorf("it is for %v", issued.Subject)
	}
	if err := issued.VerifyHostname("192.0.2.1"); err != nil {
		t.Error(err)
	}
}

func TestClientCertificateIsNoServerCertificate(t *testing.T) {
	issuer := authority(t, "own")
	pair, err := issuer.Issue(Subject{User: "client"})
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(certificate(t, issuer.PEM))
	_, err = certificate(t, pair).Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	if err == nil {
		t.Error("it could be a server's")
	}
}

func TestSigningKeysBelongTogether(t *testing.T) {
	private, public, err := NewSigningKey()
	if err != nil {
		t.Fatal(err)
	}
	if block, _ := pem.Decode(private); block == nil || block.Type != "PRIVATE KEY" {
		t.Errorf("the private key is %s", private)
	}
	if block, _ := pem.Decode(public); block == nil || block.Type != "PUBLIC KEY" {
		t.Errorf("the public key is %s", public)
	}
}
