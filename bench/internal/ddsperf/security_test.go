// SPDX-License-Identifier: Apache-2.0

package ddsperf

import (
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestGovernance(t *testing.T) {
	if _, err := exec.LookPath(signer); err != nil {
		t.Skip("openssl is not installed")
	}
	authority, err := NewAuthority(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"authentication":                      "<rtps_protection_kind>NONE<",
		"encrypt-payload":                     "<data_protection_kind>ENCRYPT<",
		"sign-origin-rtps-encrypt-submessage": "<rtps_protection_kind>SIGN_WITH_ORIGIN_AUTHENTICATION<",
	} {
		security, err := authority.At(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(security.Governance), want) || !strings.Contains(string(security.Governance), "multipart/signed") {
			t.Errorf("%s: no %s, or not signed", name, want)
		}
	}
	if none, err := authority.At(t.Context(), NoSecurity); none != nil || err != nil {
		t.Errorf("none: %v, %v", none, err)
	}
	if _, err := authority.At(t.Context(), "sealed"); err == nil || !strings.Contains(err.Error(), `"sealed"; those are [none authentication`) {
		t.Error(err)
	}
}

// TestCycloneDDSAcceptsLevels has ping and pong over the loopback interface.
func TestCycloneDDSAcceptsLevels(t *testing.T) {
	program, err := exec.LookPath(Program)
	_, errPlugins := os.Stat(filepath.Join(PluginFolder, "libdds_security_auth.so"))
	_, errSigner := exec.LookPath(signer)
	if err != nil || errPlugins != nil || errSigner != nil {
		missing := t.Skip
		if os.Getenv("CI") == "true" {
			missing = t.Fatal
		}
		missing("cyclonedds-tools, its security plugins or openssl are not installed; scripts/install-deps.sh test")
	}
	authority, err := NewAuthority(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	local := netip.MustParseAddr("127.0.0.1")
	for i, level := range []string{"authentication", "encrypt-rtps", "sign-origin-rtps-encrypt-submessage"} {
		t.Run(level, func(t *testing.T) {
			security, err := authority.At(t.Context(), level)
			if err != nil {
				t.Fatal(err)
			}
			config := Config{Address: local, Peers: []netip.Addr{local}, OneSampleBytes: 256, Security: security}
			text, err := config.XML()
			if err != nil {
				t.Fatal(err)
			}
			test := Test{Latency: true, SampleBytes: 256, Subscribers: 1, Duration: 2 * time.Second}
			domain := []string{"-i", strconv.Itoa(100 + i)} // where nobody else is
			start := func(arguments []string) (*exec.Cmd, *strings.Builder) {
				output := &strings.Builder{}
				command := exec.CommandContext(t.Context(), program, append(domain, arguments...)...)
				command.Env = append(os.Environ(), Environment+"="+string(text))
				command.Stdout, command.Stderr = output, output
				if err := command.Start(); err != nil {
					t.Fatal(err)
				}
				return command, output
			}
			pong, _ := start(test.Subscriber())
			defer func() { _ = pong.Process.Kill(); _ = pong.Wait() }()
			ping, output := start(test.Publisher())
			_ = ping.Wait()
			result, err := ParsePublisher(strings.NewReader(output.String()))
			if err != nil {
				t.Fatalf("%v\n%s", err, output)
			}
			t.Logf("%d pings, mean %.0f ns", result.Pings, result.MeanNs)
		})
	}
}
