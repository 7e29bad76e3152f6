// SPDX-License-Identifier: Apache-2.0

package certificate

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"testing"
	"time"
)

const testName = "ktsn-operator.test.svc"

// accepted tells whether who trusts a bundle accepts what a Secret has served.
func accepted(t *testing.T, bundle []byte, secret map[string][]byte, now time.Time) bool {
	t.Helper()
	pair, err := tls.X509KeyPair(secret[keyCertificate], secret[keyKey])
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	_, err = pair.Leaf.Verify(x509.VerifyOptions{DNSName: testName, Roots: roots, CurrentTime: now})
	return err == nil
}

func TestServedCertificateIsTrusted(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	end := now.AddDate(2, 0, 0)
	secret, bundle, err := advance(testName, nil, nil, now)
	if err != nil {
		t.Fatal(err)
	}
	generations := 1
	for now.Before(end) {
		now = now.Add(20 * time.Hour)
		before, trusted := secret, bundle
		if secret, bundle, err = advance(testName, before, trusted, now); err != nil {
			t.Fatal(err)
		}
		// A replica may serve what was in the Secret before, and an API server trust what it was told before.
		for name, served := range map[string]map[string][]byte{"new": secret, "old": before} {
			if !accepted(t, bundle, served, now) || !accepted(t, trusted, served, now) {
				t.Fatalf("%v: the %s certificate is not trusted", now, name)
			}
		}
		if !bytes.Equal(before[keyCertificate], secret[keyCertificate]) {
			generations++
		}
	}
	if generations < 8 || generations > 14 {
		t.Errorf("there were %d certificates in two years", generations)
	}
}

func TestAdvanceWaitsForTrust(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	secret, bundle, err := advance(testName, nil, nil, now)
	if err != nil {
		t.Fatal(err)
	}
	current := secret[keyCertificate]
	late := now.Add(validity * 3 / 4)
	secret, both, err := advance(testName, secret, bundle, late)
	if err != nil || secret[prefixNext+keyCertificate] == nil || !bytes.Equal(secret[keyCertificate], current) {
		t.Fatalf("no next one is prepared: %v", err)
	}
	for name, test := range map[string]struct {
		trusted []byte
		now     time.Time
		want    bool
	}{
		"nobody was told to trust it":    {bundle, late.Add(time.Hour), false},
		"they were told a moment ago":    {both, late.Add(time.Second), false},
		"they were told long enough ago": {both, late.Add(2 * trustDelay), true},
	} {
		t.Run(name, func(t *testing.T) {
			after, _, err := advance(testName, secret, test.trusted, test.now)
			if served := !bytes.Equal(after[keyCertificate], current); err != nil || served != test.want {
				t.Errorf("served: %v, want %v; %v", served, test.want, err)
			}
		})
	}
}

func TestAdvanceReplacesInvalid(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	good, bundle, err := advance(testName, nil, nil, now)
	if err != nil {
		t.Fatal(err)
	}
	other, _, err := advance("another.name.svc", nil, nil, now)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		secret map[string][]byte
		now    time.Time
	}{
		"garbage":         {map[string][]byte{keyCertificate: []byte("no"), keyKey: []byte("no"), keyAuthority: []byte("no")}, now},
		"another's key":   {map[string][]byte{keyCertificate: good[keyCertificate], keyKey: other[keyKey], keyAuthority: good[keyAuthority]}, now},
		"another name":    {other, now},
		"no authority":    {map[string][]byte{keyCertificate: good[keyCertificate], keyKey: good[keyKey]}, now},
		"one that is old": {good, now.Add(validity + time.Hour)},
	} {
		t.Run(name, func(t *testing.T) {
			after, trusted, err := advance(testName, test.secret, bundle, test.now)
			if err != nil || !accepted(t, trusted, after, test.now) {
				t.Errorf("what is served is not trusted: %v", err)
			}
		})
	}
}
