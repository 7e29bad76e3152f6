// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"kubevirt.io/kubevirt/pkg/hooks/info"
	hooks "kubevirt.io/kubevirt/pkg/hooks/v1alpha3"

	"github.com/kubernetsn/kubernetsn/internal/guest/hosttime"
)

const patience = 10 * time.Second

// running is a running sidecar.
type running struct {
	*Sidecar
	ended chan error
	stop  context.CancelFunc
}

func run(t *testing.T, in pod) *running {
	t.Helper()
	folder, err := os.MkdirTemp("", "hooks") // the path of a socket is limited
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	state := &running{
		Sidecar: &Sidecar{Binding: "kubernetsn", Folder: folder, Container: "hook-sidecar-0", Log: slog.New(slog.DiscardHandler), pod: in},
		ended:   make(chan error, 1),
	}
	// An earlier process has left its socket.
	left, err := net.ListenUnix("unix", &net.UnixAddr{Name: state.hookSocket(), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	left.SetUnlinkOnClose(false)
	left.Close()
	var ctx context.Context
	ctx, state.stop = context.WithCancel(t.Context())
	go func() { state.ended <- state.Run(ctx) }()
	t.Cleanup(state.stop)
	return state
}

func (r *running) awaitEnd(t *testing.T) {
	t.Helper()
	select {
	case err := <-r.ended:
		if err != nil {
			t.Errorf("it ended with %v", err)
		}
	case <-time.After(patience):
		t.Fatal("it goes on")
	}
	if _, err := os.Stat(r.hookSocket()); !os.IsNotExist(err) {
		t.Errorf("its socket is left: %v", err)
	}
}

// dial connects like virt-launcher, which waits for the socket as well.
func (r *running) dial(t *testing.T) *grpc.ClientConn {
	t.Helper()
	connection, err := grpc.NewClient("unix://"+r.hookSocket(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { connection.Close() })
	return connection
}

func TestHooks(t *testing.T) {
	sidecar := run(t, blue)
	connection := sidecar.dial(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	reportedInfo, err := info.NewInfoClient(connection).Info(ctx, &info.InfoParams{})
	if err != nil || reportedInfo.GetName() != "ktsn-kubevirt" || len(reportedInfo.GetVersions()) != 1 || reportedInfo.GetVersions()[0] != "v1alpha3" || len(reportedInfo.GetHookPoints()) != 2 ||
		reportedInfo.GetHookPoints()[0].GetName() != "OnDefineDomain" || reportedInfo.GetHookPoints()[1].GetName() != "Shutdown" {
		t.Fatalf("it says %v, %v", reportedInfo, err)
	}
	client := hooks.NewCallbacksClient(connection)
	result, err := client.OnDefineDomain(ctx, &hooks.OnDefineDomainParams{Vmi: example(t, "binding.json"), DomainXML: example(t, "binding.xml")})
	if err != nil || !bytes.Contains(result.GetDomainXML(), []byte(`<source mode="bind" path="`+sidecar.Folder+`/hook-sidecar-0/userdata/clock.sock"/>`)) {
		t.Errorf("the domain is %s, %v", result.GetDomainXML(), err)
	}
	_, err = client.OnDefineDomain(ctx, &hooks.OnDefineDomainParams{Vmi: example(t, "target.json"), DomainXML: example(t, "binding.xml")})
	if status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), "KuberneTSN: a virtual machine on a network of KuberneTSN cannot be migrated") {
		t.Errorf("a machine that migrates: %v", err)
	}
	same, err := client.PreCloudInitIso(ctx, &hooks.PreCloudInitIsoParams{CloudInitData: []byte("data"), CloudInitNoCloudSource: []byte("source")})
	if err != nil || string(same.GetCloudInitData()) != "data" || string(same.GetCloudInitNoCloudSource()) != "source" {
		t.Errorf("cloud-init's data is %v, %v", same, err)
	}
	if _, err := client.Shutdown(ctx, &hooks.ShutdownParams{}); err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	sidecar.awaitEnd(t)
}

func TestShutdown(t *testing.T) {
	sidecar := run(t, blue)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := info.NewInfoClient(sidecar.dial(t)).Info(ctx, &info.InfoParams{}); err != nil {
		t.Fatal(err)
	}
	sidecar.stop()
	sidecar.awaitEnd(t)
}

func TestMachineGetsTime(t *testing.T) {
	sidecar := run(t, blue)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := info.NewInfoClient(sidecar.dial(t)).Info(ctx, &info.InfoParams{}); err != nil { // the sidecar has created its folder
		t.Fatal(err)
	}
	machine, err := net.Listen("unix", filepath.Join(sidecar.Folder, "userdata", "clock.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer machine.Close()
	port, err := machine.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer port.Close()
	_ = port.SetDeadline(time.Now().Add(patience))
	// The client of hosttime is tested with its server; here an answer is enough.
	if err := binary.Write(port, binary.LittleEndian, hosttime.Request{Magic: 0x3251544b, Number: 7}); err != nil {
		t.Fatal(err)
	}
	var reply hosttime.Reply
	if err := binary.Read(port, binary.LittleEndian, &reply); err != nil || reply.Number != 7 || reply.RepliedTAI < reply.ReceivedTAI {
		t.Errorf("the reply is %+v, %v", reply, err)
	}
}

func TestInvalidCommandLine(t *testing.T) {
	t.Setenv(containerVariable, "")
	for want, arguments := range map[string][]string{
		"neither --container nor CONTAINER_NAME names this container": {"--binding", "a"},
		"--binding is empty":                       {"--container", "a", "--binding", ""},
		"--limit -1s is below zero":                {"--container", "a", "--limit", "-1s"},
		"no --instance says which virtual machine": {"define", "--container", "a"},
		"no-such-file":                             {"define", "--container", "a", "--instance", "no-such-file"},
	} {
		var stderr bytes.Buffer
		if got := Main(t.Context(), arguments, strings.NewReader(""), io.Discard, &stderr); got == 0 || !strings.Contains(stderr.String(), want) {
			t.Errorf("%q: %d, %q; want %s", arguments, got, stderr.String(), want)
		}
	}
}
