// SPDX-License-Identifier: Apache-2.0

package cni_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"math/big"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/kubernetsn/kubernetsn/internal/testlab/podnetworks"
)

// The tests of this file have the rows of Table I of Osmani, Kauppinen, Komu, Tarkoma (Multi-Cloud Connectivity for Kubernetes in 5G
// Networks) as their names: what telecommunication asks of the network of pods. docs/measurements/links-table.md names what else proves a row.

// ofTable returns a link between pods of two nodes.
func ofTable(t *testing.T) *linkedPods {
	t.Helper()
	lab := newLinkLab(t)
	l := newLinked(lab.a.newPod(t), lab.b.newPod(t), linkVNI)
	l.plug(t)
	return l
}

// address returns the end's IPv4 address.
func (e *end) address() netip.Addr { return netip.MustParsePrefix(e.addresses[0]).Addr() }

// TestTableSecondNetwork plugs two links to running pods that already have a network: three independent interfaces.
func TestTableSecondNetwork(t *testing.T) {
	t.Parallel()
	r := newReachable(t)
	for i := range 2 {
		l := newLinked(r.a1, r.b1, linkVNI+i)
		l.client.name, l.endpoint.name = l.client.name+"x"[:i], l.endpoint.name+"x"[:i]
		l.plug(t)
		checkUDP(t, r.a1, r.b1, l.client.address(), l.endpoint.address(), largest(true))
	}
	checkUDP(t, r.a1, r.b1, r.address(r.a1, true), r.address(r.b1, true), largest(true))
	must(t, r.a1.Do(func() error {
		interfaces, err := net.Interfaces()
		if len(interfaces) != 4 { // with the loopback
			t.Errorf("the pod has %v", interfaces)
		}
		return err
	}))
}

// TestTableServiceFunctionChains routes packets through a third pod, which sees them in both directions.
func TestTableServiceFunctionChains(t *testing.T) {
	t.Parallel()
	lab := newLinkLab(t)
	client, middle, endpoint := lab.a.newPod(t), lab.b.newPod(t), lab.a.newPod(t)
	first, second := newLinked(client, middle, linkVNI), newLinked(middle, endpoint, linkVNI+1)
	first.endpoint.forward, second.client.forward = []string{"IPv4"}, []string{"IPv4"}
	first.client.routes, second.endpoint.routes = []string{"10.200.6.0/31"}, []string{"10.200.5.0/31"}
	first.plug(t)
	second.plug(t)
	before := forwardedFrames(t, middle, second.client.name)
	checkUDP(t, client, endpoint, first.client.address(), second.endpoint.address(), 1000)
	checkUDP(t, endpoint, client, second.endpoint.address(), first.client.address(), 1000)
	checkTCP(t, client, endpoint, second.endpoint.address())
	if after := forwardedFrames(t, middle, second.client.name); after < before+3 {
		t.Errorf("the pod in the middle has forwarded %d frames", after-before)
	}
}

// forwardedFrames returns the frames that a pod has sent at an interface.
func forwardedFrames(t *testing.T, p *pod, name string) (frames uint64) {
	t.Helper()
	must(t, p.Do(func() error {
		link, err := netlink.LinkByName(name)
		if err == nil {
			frames = link.Attrs().Statistics.TxPackets
		}
		return err
	}))
	return frames
}

// TestTableMultiCluster links pods of nodes in two subnets with a router between them, like those of two clusters.
func TestTableMultiCluster(t *testing.T) {
	t.Parallel()
	n, err := podnetworks.Create(t.Context(), podnetworks.Wanted{Networks: []string{podnetworks.Link}, LinkMTU: 1500, Routed: true, Pods: 1,
		Programs: shipped(t)})
	must(t, err)
	t.Cleanup(func() { must(t, n.Close(t.Context())) })
	near, far := n.Near(podnetworks.Link), n.Far(podnetworks.Link, 1)[0]
	command := exec.Command("ping", "-n", "-c", "2", "-W", "5", "-M", "do", "-s", "1422", far.Address.String())
	must(t, start(t, near.Namespace(), "ping", command).Wait())
}

// TestTableTLSAndVPN runs a TLS session over a link. An encrypted link is itself a VPN.
func TestTableTLSAndVPN(t *testing.T) {
	t.Parallel()
	l := ofTable(t)
	certificate, pool := selfSigned(t, l.endpoint.address())
	listener := within(t, l.endpoint, func() (net.Listener, error) {
		return tls.Listen("tcp", netip.AddrPortFrom(l.endpoint.address(), 0).String(), &tls.Config{Certificates: []tls.Certificate{certificate}})
	})
	defer listener.Close()
	go func() {
		conn, err := listener.Accept()
		if err == nil {
			_, _ = io.Copy(conn, conn)
			conn.Close()
		}
	}()
	conn := within(t, l.client, func() (*tls.Conn, error) {
		return tls.DialWithDialer(&net.Dialer{Timeout: patience}, "tcp", listener.Addr().String(), &tls.Config{RootCAs: pool})
	})
	defer conn.Close()
	must(t, conn.SetDeadline(time.Now().Add(patience)))
	text := bytes.Repeat([]byte("x"), 100_000)
	_, err := conn.Write(text)
	must(t, errors.Join(err, conn.CloseWrite()))
	got, err := io.ReadAll(conn)
	if err != nil || !bytes.Equal(got, text) {
		t.Errorf("%d bytes returned: %v", len(got), err)
	}
}

// selfSigned returns a certificate for an address and the pool that trusts it.
func selfSigned(t *testing.T, address netip.Addr) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{address.AsSlice()}}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	must(t, err)
	parsed, err := x509.ParseCertificate(certificate)
	must(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{certificate}, PrivateKey: key}, pool
}

// TestTableNoNAT checks that the receiver sees the sender's address and port over UDP and TCP, in both directions.
func TestTableNoNAT(t *testing.T) {
	t.Parallel()
	l := ofTable(t)
	for _, ends := range [][2]*end{{l.client, l.endpoint}, {l.endpoint, l.client}} {
		from, to := ends[0], ends[1]
		listener, talker := listenUDP(t, to.pod, to.address()), listenUDP(t, from.pod, from.address())
		_, err := talker.WriteTo([]byte("who"), listener.LocalAddr())
		must(t, err)
		_, sender, err := listener.ReadFromUDPAddrPort(make([]byte, 100))
		if local := talker.LocalAddr().(*net.UDPAddr).AddrPort(); err != nil || sender.Port() != local.Port() || sender.Addr().Unmap() != from.address() {
			t.Errorf("a datagram of %s arrives from %s: %v", local, sender, err)
		}
		if seen, local := acceptedFrom(t, from, to); seen != local {
			t.Errorf("a connection of %s arrives from %s", local, seen)
		}
	}
}

// acceptedFrom returns the client's address as the server sees it, and as the client does.
func acceptedFrom(t *testing.T, from, to *end) (seen, local string) {
	t.Helper()
	var listener, conn = net.Listener(nil), net.Conn(nil)
	must(t, to.Do(func() (err error) {
		listener, err = net.Listen("tcp", netip.AddrPortFrom(to.address(), 0).String())
		return err
	}))
	defer listener.Close()
	must(t, from.Do(func() (err error) {
		conn, err = net.DialTimeout("tcp", listener.Addr().String(), patience)
		return err
	}))
	defer conn.Close()
	accepted, err := listener.Accept()
	must(t, err)
	defer accepted.Close()
	return accepted.RemoteAddr().String(), conn.LocalAddr().String()
}

// TestTableSCTP runs an association in packets of IP protocol 132 with a user-space stack, since the kernel need not
// support SCTP.
func TestTableSCTP(t *testing.T) {
	t.Parallel()
	l := ofTable(t)
	sctp := program(t, "ktsn-test-sctp")
	server := exec.Command(sctp, "server", l.endpoint.address().String(), "5001", "0")
	var output bytes.Buffer
	server.Stdout = &output
	serving := start(t, l.endpoint.Namespace, "SCTP server", server)
	client := start(t, l.client.Namespace, "SCTP client", exec.Command(sctp, "client", l.client.address().String(),
		l.endpoint.address().String(), "5001", "1", "1400"))
	must(t, errors.Join(client.Wait(), serving.Wait()))
	var got struct {
		Bytes int64
		From  string
	}
	must(t, json.Unmarshal(output.Bytes(), &got))
	if got.Bytes < 1<<20 || got.From != l.client.address().String() {
		t.Errorf("%d bytes arrived from %s", got.Bytes, got.From)
	}
}

// TestTableUDP sends datagrams of all sizes, fragmented where necessary, in both directions.
func TestTableUDP(t *testing.T) {
	t.Parallel()
	l := ofTable(t)
	for _, ends := range [][2]*end{{l.client, l.endpoint}, {l.endpoint, l.client}} {
		for _, size := range []int{1, largest(true), largest(true) + 1, 9000, 60_000} {
			listener, talker := listenUDP(t, ends[1].pod, ends[1].address()), listenUDP(t, ends[0].pod, ends[0].address())
			sent := bytes.Repeat([]byte{byte(size)}, size)
			_, err := talker.WriteTo(sent, listener.LocalAddr())
			must(t, err)
			got := make([]byte, 1<<16)
			count, _, err := listener.ReadFromUDPAddrPort(got)
			if err != nil || !bytes.Equal(got[:count], sent) {
				t.Errorf("of %d bytes %d arrive: %v", size, count, err)
			}
		}
	}
}

// TestTableHardwareAcceleration checks that messages with a transmit time leave by ktsnd's DPDK port, past the kernel,
// and that the link leaves checksums and segmentation to the device.
func TestTableHardwareAcceleration(t *testing.T) {
	t.Parallel()
	l := ofTable(t)
	l.checkTimed(t)
	for _, local := range []*end{l.client, l.endpoint} {
		features := featuresOf(t, local)
		for _, name := range []string{"tx-checksumming", "scatter-gather", "tcp-segmentation-offload", "generic-segmentation-offload"} {
			if !slices.Contains(features, name+": on") {
				t.Errorf("%s has %s off: %q", local.name, name, features)
			}
		}
	}
}

// featuresOf returns the features of a link's interface that are not fixed or are on.
func featuresOf(t *testing.T, local *end) []string {
	t.Helper()
	command := exec.Command("ethtool", "-k", local.name)
	command.Env = append(os.Environ(), "LC_ALL=C")
	output, err := outputOf(t, local, command)
	must(t, err)
	var all []string
	for line := range strings.Lines(output) {
		all = append(all, strings.TrimSuffix(strings.TrimSpace(line), " [fixed]"))
	}
	return all
}
