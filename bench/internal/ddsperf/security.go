// SPDX-License-Identifier: Apache-2.0

package ddsperf

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Level is a level of protection by DDS Security.
type Level struct {
	Name string
	// The protected parts, in the terms of a governance document.
	rtps, submessage, payload string
}

const (
	nothing    = "NONE"
	sign       = "SIGN"
	encrypt    = "ENCRYPT"
	signOrigin = "SIGN_WITH_ORIGIN_AUTHENTICATION"
)

// NoSecurity is the level without the plugins of DDS Security.
const NoSecurity = "none"

// levels are ordered approximately by cost. The last is the paper's.
var levels = []Level{
	{"authentication", nothing, nothing, nothing},
	{"encrypt-payload", nothing, nothing, encrypt},
	{"encrypt-submessage", nothing, encrypt, nothing},
	{"sign-rtps", sign, nothing, nothing},
	{"encrypt-rtps", encrypt, nothing, nothing},
	{"sign-origin-rtps-encrypt-submessage", signOrigin, encrypt, nothing},
}

// Levels returns their names, NoSecurity first.
func Levels() []string {
	names := []string{NoSecurity}
	for _, level := range levels {
		names = append(names, level.Name)
	}
	return names
}

// PluginFolder is the folder of DDS Security's plugins in Debian's libddsc0debian.
const PluginFolder = "/usr/lib/x86_64-linux-gnu/libddsc0debian"

// The program that signs documents, and its package.
const (
	signer        = "openssl"
	signerPackage = "openssl"
)

const (
	subject  = "ddsperf"
	validFor = 30 * 24 * time.Hour
	clockOff = time.Hour
)

// Authority is an identity for participants, and the authority for it and its permissions. It exists only during a
// measurement.
type Authority struct {
	Certificate, Identity, Key []byte // PEM
	signingKey                 []byte // PEM
	begin                      time.Time
}

// Security is a participant's security configuration.
type Security struct {
	Authority               *Authority
	Governance, Permissions []byte
}

// NewAuthority creates keys and certificates.
func NewAuthority(now time.Time) (*Authority, error) {
	a := &Authority{begin: now.Add(-clockOff).UTC()}
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	ca := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ktsn bench"}, NotBefore: a.begin,
		NotAfter: a.begin.Add(validFor), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature}
	caBytes, err := x509.CreateCertificate(rand.Reader, ca, ca, &caKey.PublicKey, caKey)
	if err != nil {
		return nil, fmt.Errorf("make a certificate: %w", err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	identity := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: subject}, NotBefore: a.begin,
		NotAfter: a.begin.Add(validFor), KeyUsage: x509.KeyUsageDigitalSignature}
	identityBytes, err := x509.CreateCertificate(rand.Reader, identity, ca, &key.PublicKey, caKey)
	if err != nil {
		return nil, fmt.Errorf("make a certificate: %w", err)
	}
	a.Certificate, a.Identity = encode("CERTIFICATE", caBytes), encode("CERTIFICATE", identityBytes)
	if a.signingKey, err = encodeKey(caKey); err != nil {
		return nil, err
	}
	a.Key, err = encodeKey(key)
	return a, err
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("write a key: %w", err)
	}
	return encode("PRIVATE KEY", der), nil
}

// At returns the security of a level; nil for NoSecurity.
func (a *Authority) At(ctx context.Context, name string) (*Security, error) {
	if name == NoSecurity {
		return nil, nil
	}
	for _, level := range levels {
		if level.Name != name {
			continue
		}
		s := &Security{Authority: a}
		var err error
		if s.Governance, err = a.sign(ctx, level.governance()); err != nil {
			return nil, err
		}
		s.Permissions, err = a.sign(ctx, a.permissions())
		return s, err
	}
	return nil, fmt.Errorf("no level of security is called %q; those are %v", name, Levels())
}

// sign makes openssl create a signed S/MIME document, as DDS Security requires. The key is in a folder of root
// meanwhile.
func (a *Authority) sign(ctx context.Context, document string) (_ []byte, err error) {
	program, err := exec.LookPath(signer)
	if err != nil {
		return nil, fmt.Errorf("%s is not installed here; as root: apt-get install %s, or leave the levels of security out", signer, signerPackage)
	}
	dir, err := os.MkdirTemp("", "ktsn-dds-")
	if err != nil {
		return nil, fmt.Errorf("sign a document: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	certificate, key := filepath.Join(dir, "certificate.pem"), filepath.Join(dir, "key.pem")
	if err := errors.Join(os.WriteFile(certificate, a.Certificate, 0o600), os.WriteFile(key, a.signingKey, 0o600)); err != nil {
		return nil, fmt.Errorf("sign a document: %w", err)
	}
	command := exec.CommandContext(ctx, program, "smime", "-sign", "-text", "-signer", certificate, "-inkey", key)
	command.Stdin = strings.NewReader(document)
	signed, err := command.Output()
	if err != nil {
		var ended *exec.ExitError
		if errors.As(err, &ended) {
			err = fmt.Errorf("%w: %s", err, bytes.TrimSpace(ended.Stderr))
		}
		return nil, fmt.Errorf("sign a document with openssl: %w", err)
	}
	return signed, nil
}

// governance returns the document with the protection of each part; discovery and joining are protected at every level.
func (l *Level) governance() string {
	return fmt.Sprintf(`<?xml version="1.0" encoding="utf-8"?>
<dds xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:noNamespaceSchemaLocation="https://www.omg.org/spec/DDS-SECURITY/20170901/omg_shared_ca_governance.xsd">
<domain_access_rules><domain_rule>
<domains><id_range><min>0</min><max>230</max></id_range></domains>
<allow_unauthenticated_participants>false</allow_unauthenticated_participants>
<enable_join_access_control>true</enable_join_access_control>
<discovery_protection_kind>NONE</discovery_protection_kind>
<liveliness_protection_kind>NONE</liveliness_protection_kind>
<rtps_protection_kind>%s</rtps_protection_kind>
<topic_access_rules><topic_rule>
<topic_expression>*</topic_expression>
<enable_discovery_protection>false</enable_discovery_protection>
<enable_liveliness_protection>false</enable_liveliness_protection>
<enable_read_access_control>false</enable_read_access_control>
<enable_write_access_control>false</enable_write_access_control>
<metadata_protection_kind>%s</metadata_protection_kind>
<data_protection_kind>%s</data_protection_kind>
</topic_rule></topic_access_rules>
</domain_rule></domain_access_rules>
</dds>
`, l.rtps, l.submessage, l.payload)
}

// permissions returns the document that allows the identity everything.
func (a *Authority) permissions() string {
	const format = "2006-01-02T15:04:05"
	return fmt.Sprintf(`<?xml version="1.0" encoding="utf-8"?>
<dds xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:noNamespaceSchemaLocation="https://www.omg.org/spec/DDS-SECURITY/20170901/omg_shared_ca_permissions.xsd">
<permissions><grant name="all">
<subject_name>CN=%s</subject_name>
<validity><not_before>%s</not_before><not_after>%s</not_after></validity>
<allow_rule><domains><id_range><min>0</min><max>230</max></id_range></domains>
<publish><topics><topic>*</topic></topics><partitions><partition>*</partition></partitions></publish>
<subscribe><topics><topic>*</topic></topics><partitions><partition>*</partition></partitions></subscribe>
</allow_rule>
<default>DENY</default>
</grant></permissions>
</dds>
`, subject, a.begin.Format(format), a.begin.Add(validFor).Format(format))
}
