// SPDX-License-Identifier: Apache-2.0

package csi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/kubernetsn/kubernetsn/internal/testlab"
)

// fakeDaemon listens like ktsnd, and loses its state when it restarts.
type fakeDaemon struct {
	mu      sync.Mutex
	sockets map[string]net.Listener
	// names are what it was told that pods are called.
	names  map[string]string
	refuse error
	// removing is called before a socket is removed.
	removing func()
}

func (f *fakeDaemon) SocketAdd(_ context.Context, identity, path, name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.refuse != nil {
		return f.refuse
	}
	if f.names == nil {
		f.names = map[string]string{}
	}
	f.names[identity] = name
	if f.sockets[identity] != nil {
		return nil
	}
	_ = os.Remove(path)
	listener, err := net.Listen("unixpacket", path)
	if err != nil {
		return err
	}
	if err := os.Chmod(path, 0o666); err != nil {
		return err
	}
	f.sockets[identity] = listener
	return nil
}

func (f *fakeDaemon) SocketDel(ctx context.Context, identity string) error {
	if f.removing != nil {
		f.removing()
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if listener := f.sockets[identity]; listener != nil {
		delete(f.sockets, identity)
		return listener.Close()
	}
	return nil
}

// kill ends it as SIGKILL would: files stay.
func (f *fakeDaemon) kill() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for identity, listener := range f.sockets {
		listener.(*net.UnixListener).SetUnlinkOnClose(false)
		listener.Close()
		delete(f.sockets, identity)
	}
	f.names = nil
}

// node is a node with a driver, and a kubelet of which the tests play the part.
type node struct {
	dir    string
	daemon *fakeDaemon
	driver *Driver
	server *Server
	client csi.NodeClient
	info   csi.IdentityClient
	// registered is what the agent was told of its registration.
	registered chan error
	stop       func()
	// leave is called when the agent ends.
	leave func()
}

func newNode(t *testing.T) *node {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	// Short, because of the length of sockets' paths.
	dir, err := os.MkdirTemp("", "ktsn-csi")
	testlab.Must(t, err)
	t.Cleanup(func() {
		for _, mount := range mountsBelow(t, dir) {
			t.Errorf("left mounted: %s", mount)
			_ = syscall.Unmount(mount, syscall.MNT_DETACH)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	library := filepath.Join(dir, "run", "lib", libraryName)
	testlab.Must(t, os.MkdirAll(filepath.Dir(library), 0o755))
	testlab.Must(t, os.WriteFile(library, []byte("first"), 0o444))
	n := &node{dir: dir, daemon: &fakeDaemon{sockets: map[string]net.Listener{}}}
	t.Cleanup(n.daemon.kill)
	n.start(t)
	return n
}

// start starts an agent; the one before has ended.
func (n *node) start(t *testing.T) {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	n.registered = make(chan error, 100)
	n.driver = &Driver{
		Node: "node1", Version: "1", PodsDir: filepath.Join(n.dir, "kubelet", "pods"), Ready: func() bool { return true }, Log: log,
		Volumes: &Volumes{Dir: filepath.Join(n.dir, "run"), Library: filepath.Join(n.dir, "run", "lib", libraryName), Daemon: n.daemon},
	}
	n.server = &Server{
		Driver: n.driver, Endpoint: filepath.Join(n.dir, "kubelet", "plugins", "csi.sock"),
		Registry: filepath.Join(n.dir, "kubelet", "plugins_registry", "reg.sock"), Log: log,
		Registered: func(err error) { n.registered <- err },
		Leave: func(context.Context) {
			if n.leave != nil {
				n.leave()
			}
		},
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- n.server.Run(ctx) }()
	n.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the server ended with %v", err)
		}
	})
	t.Cleanup(n.stop)
	connection := dial(t, n.server.Endpoint)
	n.client, n.info = csi.NewNodeClient(connection), csi.NewIdentityClient(connection)
}

func dial(t *testing.T, path string) *grpc.ClientConn {
	t.Helper()
	connection, err := grpc.NewClient("unix://"+path, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
	testlab.Must(t, err)
	t.Cleanup(func() { connection.Close() })
	return connection
}

func mountsBelow(t *testing.T, dir string) []string {
	t.Helper()
	text, err := os.ReadFile("/proc/self/mountinfo")
	testlab.Must(t, err)
	var mounts []string
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); strings.HasPrefix(fields[4], dir+"/") {
			mounts = append(mounts, fields[4])
		}
	}
	return mounts
}

// target is where kubelet wants a pod's volume.
func (n *node) target(uid, volume string) string {
	return filepath.Join(n.driver.PodsDir, uid, "volumes", "kubernetes.io~csi", volume, "mount")
}

func (n *node) request(uid, volume string) *csi.NodePublishVolumeRequest {
	return &csi.NodePublishVolumeRequest{
		VolumeId: "csi-" + uid + volume, TargetPath: n.target(uid, volume),
		VolumeCapability: &csi.VolumeCapability{
			AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{}},
			AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
		},
		VolumeContext: map[string]string{
			contextEphemeral: "true", contextUID: uid, contextName: "pod", contextNamespace: "default",
			contextPrefix + "serviceAccount.name": "default",
		},
	}
}

func (n *node) publish(t *testing.T, uid, volume string) {
	t.Helper()
	if _, err := n.client.NodePublishVolume(t.Context(), n.request(uid, volume)); err != nil {
		t.Fatal(err)
	}
}

func (n *node) unpublish(t *testing.T, uid, volume string) {
	t.Helper()
	request := &csi.NodeUnpublishVolumeRequest{VolumeId: "csi-" + uid + volume, TargetPath: n.target(uid, volume)}
	if _, err := n.client.NodeUnpublishVolume(t.Context(), request); err != nil {
		t.Fatal(err)
	}
}

// reaches tells whether somebody answers on the socket in a pod's volume.
func (n *node) checkReachable(uid, volume string) error {
	connection, err := net.Dial("unixpacket", filepath.Join(n.target(uid, volume), socketName))
	if err == nil {
		connection.Close()
	}
	return err
}

// isClean fails the test unless nothing of volumes is left.
func (n *node) checkClean(t *testing.T) {
	t.Helper()
	for _, dir := range []string{"run/pods", "run/volumes"} {
		entries, err := os.ReadDir(filepath.Join(n.dir, dir))
		if err != nil && !os.IsNotExist(err) || len(entries) > 0 {
			t.Errorf("left in %s: %v, %v", dir, entries, err)
		}
	}
	if mounts := mountsBelow(t, n.dir); len(mounts) > 0 {
		t.Errorf("left mounted: %v", mounts)
	}
	if len(n.daemon.sockets) > 0 {
		t.Errorf("ktsnd still listens for %d pods", len(n.daemon.sockets))
	}
}

func TestPublishMountsReadOnly(t *testing.T) {
	n := newNode(t)
	for range 2 { // kubelet repeats itself
		n.publish(t, "uid-1", "ktsn")
	}
	n.publish(t, "uid-2", "ktsn")
	target := n.target("uid-1", "ktsn")
	if text, err := os.ReadFile(filepath.Join(target, libraryName)); err != nil || string(text) != "first" {
		t.Errorf("the library is %q, %v", text, err)
	}
	if err := n.checkReachable("uid-1", "ktsn"); err != nil {
		t.Error(err)
	}
	if name := n.daemon.names["uid-1"]; name != "default/pod" {
		t.Errorf("ktsnd was told that the pod is called %q", name)
	}
	for name, change := range map[string]func() error{
		"write":   func() error { return os.WriteFile(filepath.Join(target, "x"), nil, 0o600) },
		"remove":  func() error { return os.Remove(filepath.Join(target, socketName)) },
		"replace": func() error { return os.Rename(filepath.Join(target, libraryName), filepath.Join(target, "y")) },
		"open":    func() error { return os.Chmod(filepath.Join(target, libraryName), 0o777) },
	} {
		if err := change(); !errors.Is(err, syscall.EROFS) {
			t.Errorf("%s: %v, want that the file system is read only", name, err)
		}
	}
	var about syscall.Statfs_t
	if err := syscall.Statfs(target, &about); err != nil || about.Flags&syscall.MS_NOEXEC != 0 || about.Flags&syscall.MS_NOSUID == 0 {
		t.Errorf("flags %#x, %v: programs must be allowed, set-user-id not", about.Flags, err)
	}
	for range 2 {
		n.unpublish(t, "uid-1", "ktsn")
	}
	if _, err := os.Stat(target); !os.IsNotExist(err) {
		t.Errorf("the mount point is still there: %v", err)
	}
	if err := n.checkReachable("uid-2", "ktsn"); err != nil {
		t.Errorf("the other pod: %v", err)
	}
	n.unpublish(t, "uid-2", "ktsn")
	n.checkClean(t)
}

func TestPublishAwaitsPod(t *testing.T) {
	n := newNode(t)
	awaited := ""
	n.driver.Await = func(_ context.Context, volume *Volume) {
		awaited = volume.name() + " " + volume.UID
		if n.checkReachable("uid", "ktsn") == nil {
			t.Error("the volume was published before")
		}
	}
	n.publish(t, "uid", "ktsn")
	if awaited != "default/pod uid" {
		t.Errorf("awaited %q", awaited)
	}
	n.unpublish(t, "uid", "ktsn")
	n.checkClean(t)
}

func TestPublishTwoVolumesOfPod(t *testing.T) {
	n := newNode(t)
	n.publish(t, "uid", "a")
	n.publish(t, "uid", "b")
	n.unpublish(t, "uid", "a")
	if err := n.checkReachable("uid", "b"); err != nil {
		t.Error(err)
	}
	n.unpublish(t, "uid", "b")
	n.checkClean(t)
}

func TestPublishRejectsInvalidRequests(t *testing.T) {
	n := newNode(t)
	for name, test := range map[string]struct {
		spoil    func(*csi.NodePublishVolumeRequest)
		sentence string
	}{
		"without an id":       {func(r *csi.NodePublishVolumeRequest) { r.VolumeId = "" }, "volume_id: missing"},
		"without a target":    {func(r *csi.NodePublishVolumeRequest) { r.TargetPath = "" }, "target_path: missing"},
		"a target elsewhere":  {func(r *csi.NodePublishVolumeRequest) { r.TargetPath = n.driver.PodsDir + "/../../etc" }, "is not below"},
		"no capability":       {func(r *csi.NodePublishVolumeRequest) { r.VolumeCapability = nil }, "volume_capability: missing"},
		"a block volume":      {func(r *csi.NodePublishVolumeRequest) { r.VolumeCapability.AccessType = nil }, "does not support block volumes"},
		"a persistent volume": {func(r *csi.NodePublishVolumeRequest) { delete(r.VolumeContext, contextEphemeral) }, "supports inline volumes only"},
		"an attribute":        {func(r *csi.NodePublishVolumeRequest) { r.VolumeContext["network"] = "tsn" }, "volumeAttributes: network: unknown attribute"},
		"nothing of the pod":  {func(r *csi.NodePublishVolumeRequest) { delete(r.VolumeContext, contextUID) }, "must have podInfoOnMount: true"},
		"a path as UID":       {func(r *csi.NodePublishVolumeRequest) { r.VolumeContext[contextUID] = "../x" }, "must have podInfoOnMount: true"},
	} {
		t.Run(name, func(t *testing.T) {
			request := n.request("uid", "ktsn")
			test.spoil(request)
			_, err := n.client.NodePublishVolume(t.Context(), request)
			if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), test.sentence) {
				t.Errorf("got %v, want %q", err, test.sentence)
			}
			n.checkClean(t)
		})
	}
}

func TestPublishRollsBackWithoutKtsnd(t *testing.T) {
	n := newNode(t)
	n.daemon.refuse = errors.New("ktsnd does not answer")
	_, err := n.client.NodePublishVolume(t.Context(), n.request("uid", "ktsn"))
	if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "make ktsnd listen for the pod: ktsnd does not answer") {
		t.Errorf("got %v", err)
	}
	n.checkClean(t)
	n.daemon.refuse = nil
	n.publish(t, "uid", "ktsn")
	// kubelet was restarted, and asks again while ktsnd is away: what the pod has must stay.
	n.daemon.refuse = errors.New("ktsnd does not answer")
	if _, err := n.client.NodePublishVolume(t.Context(), n.request("uid", "ktsn")); err == nil {
		t.Error("published without ktsnd")
	}
	if err := n.checkReachable("uid", "ktsn"); err != nil {
		t.Error(err)
	}
	n.unpublish(t, "uid", "ktsn")
	n.checkClean(t)
}

func TestRestoreAfterKtsndRestart(t *testing.T) {
	n := newNode(t)
	for i := range 3 {
		n.publish(t, fmt.Sprint("uid-", i), "ktsn")
	}
	n.daemon.kill()
	if err := n.checkReachable("uid-1", "ktsn"); err == nil {
		t.Fatal("somebody answers after ktsnd was killed")
	}
	if count, err := n.driver.Volumes.Restore(t.Context()); err != nil || count != 3 {
		t.Errorf("restored %d, %v", count, err)
	}
	for i := range 3 {
		if name := n.daemon.names[fmt.Sprint("uid-", i)]; name != "default/pod" {
			t.Errorf("the ktsnd that was started anew knows the pod as %q", name)
		}
		// In the mount that the pod has had all the time.
		if err := n.checkReachable(fmt.Sprint("uid-", i), "ktsn"); err != nil {
			t.Error(err)
		}
		n.unpublish(t, fmt.Sprint("uid-", i), "ktsn")
	}
	n.checkClean(t)
}

func TestVolumesSurviveAgentRestart(t *testing.T) {
	n := newNode(t)
	n.publish(t, "uid", "ktsn")
	n.stop()
	n.start(t)
	if volumes, err := n.driver.Volumes.All(); err != nil || len(volumes) != 1 || volumes[0].UID != "uid" {
		t.Errorf("knows %v, %v", volumes, err)
	}
	n.publish(t, "uid", "ktsn")
	if err := n.checkReachable("uid", "ktsn"); err != nil {
		t.Error(err)
	}
	n.unpublish(t, "uid", "ktsn")
	n.checkClean(t)
}

func TestPodKeepsLibrary(t *testing.T) {
	n := newNode(t)
	n.publish(t, "old", "ktsn")
	library := n.driver.Volumes.Library
	testlab.Must(t, os.WriteFile(library+".new", []byte("second"), 0o444))
	testlab.Must(t, os.Rename(library+".new", library))
	n.publish(t, "new", "ktsn")
	for uid, want := range map[string]string{"old": "first", "new": "second"} {
		if text, err := os.ReadFile(filepath.Join(n.target(uid, "ktsn"), libraryName)); err != nil || string(text) != want {
			t.Errorf("%s has %q, %v; want %q", uid, text, err, want)
		}
		n.unpublish(t, uid, "ktsn")
	}
	n.checkClean(t)
}

func TestSweepRemovesOnlyPod(t *testing.T) {
	n := newNode(t)
	n.publish(t, "uid", "a")
	n.publish(t, "uid", "b")
	n.publish(t, "other", "ktsn")
	volumes := n.driver.Volumes
	if err := volumes.Sweep(t.Context(), "uid", func(context.Context) (bool, error) { return false, nil }); err != nil {
		t.Error(err)
	}
	if err := volumes.Sweep(t.Context(), "uid", func(context.Context) (bool, error) { return false, errors.New("no answer") }); err == nil {
		t.Error("a question without an answer is no error")
	}
	for _, name := range []string{"a", "b"} {
		if err := n.checkReachable("uid", name); err != nil {
			t.Errorf("volume %s of a pod that is not gone: %v", name, err)
		}
	}
	if err := volumes.Sweep(t.Context(), "uid", func(context.Context) (bool, error) { return true, nil }); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(volumes.PodDir("uid")); !os.IsNotExist(err) {
		t.Errorf("the folder is still there: %v", err)
	}
	if err := n.checkReachable("other", "ktsn"); err != nil {
		t.Errorf("the other pod: %v", err)
	}
	n.unpublish(t, "other", "ktsn")
	n.checkClean(t)
}

func TestSweepExcludesPublish(t *testing.T) {
	n := newNode(t)
	asked, published := make(chan struct{}), make(chan error, 1)
	go func() {
		<-asked
		_, err := n.client.NodePublishVolume(context.Background(), n.request("uid", "ktsn"))
		published <- err
	}()
	err := n.driver.Volumes.Sweep(t.Context(), "uid", func(context.Context) (bool, error) {
		close(asked)
		select {
		case err := <-published:
			t.Errorf("published during a sweep: %v", err)
		case <-time.After(100 * time.Millisecond):
		}
		return true, nil
	})
	if err != nil {
		t.Error(err)
	}
	if err := <-published; err != nil {
		t.Error(err)
	}
	if err := n.checkReachable("uid", "ktsn"); err != nil {
		t.Error(err)
	}
	n.unpublish(t, "uid", "ktsn")
	n.checkClean(t)
}

// Nobody would unmount a volume that kubelet publishes after the agent has closed.
func TestCloseStopsPublishing(t *testing.T) {
	n := newNode(t)
	n.publish(t, "before", "ktsn")
	asked, goOn := make(chan struct{}), make(chan struct{})
	n.daemon.removing = sync.OnceFunc(func() {
		close(asked)
		<-goOn
	})
	n.daemon.refuse = errors.New("ktsnd does not answer") // so that what it has made is removed again
	published := make(chan error, 1)
	go func() {
		_, err := n.client.NodePublishVolume(context.Background(), n.request("half-way", "ktsn"))
		published <- err
	}()
	<-asked
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		n.driver.Volumes.Close()
	}()
	select {
	case <-closed:
		t.Error("it did not wait for what is half-way")
	case <-time.After(100 * time.Millisecond):
	}
	close(goOn)
	if err := <-published; err == nil {
		t.Error("published without ktsnd")
	}
	<-closed
	n.daemon.refuse = nil
	_, err := n.client.NodePublishVolume(t.Context(), n.request("late", "ktsn"))
	if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "this agent is ending") {
		t.Errorf("got %v", err)
	}
	if err := n.checkReachable("before", "ktsn"); err != nil {
		t.Error(err)
	}
	n.unpublish(t, "before", "ktsn")
	n.checkClean(t)
}

func TestPodsDirIsRootOnly(t *testing.T) {
	n := newNode(t)
	// From an earlier version, or the network plugin.
	pods := filepath.Join(n.dir, "run", "pods")
	testlab.Must(t, os.MkdirAll(pods, 0o755))
	n.publish(t, "uid", "ktsn")
	if about, err := os.Stat(pods); err != nil || about.Mode().Perm() != 0o700 {
		t.Errorf("%s has mode %v, %v; want 0700", pods, about.Mode(), err)
	}
	// By its mount a pod's user, whoever that is, reaches it all the same.
	for _, path := range []string{n.target("uid", "ktsn"), filepath.Join(n.target("uid", "ktsn"), socketName)} {
		if about, err := os.Stat(path); err != nil || about.Mode().Perm()&0o005 == 0 {
			t.Errorf("%s: %v, %v; a pod's user cannot use it", path, about.Mode(), err)
		}
	}
	n.unpublish(t, "uid", "ktsn")
	n.checkClean(t)
}

func TestPublishConcurrently(t *testing.T) {
	n := newNode(t)
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			uid := fmt.Sprint("uid-", i)
			if _, err := n.client.NodePublishVolume(t.Context(), n.request(uid, "ktsn")); err != nil {
				t.Error(err)
				return
			}
			if err := n.checkReachable(uid, "ktsn"); err != nil {
				t.Error(err)
			}
			_, err := n.client.NodeUnpublishVolume(t.Context(), &csi.NodeUnpublishVolumeRequest{VolumeId: "csi-" + uid + "ktsn", TargetPath: n.target(uid, "ktsn")})
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	n.checkClean(t)
}

// next is what the agent was told next of its registration.
func (n *node) next(t *testing.T) error {
	t.Helper()
	select {
	case err := <-n.registered:
		return err
	case <-time.After(10 * time.Second):
		t.Fatal("the agent was told nothing")
		return nil
	}
}

func TestServerRegisters(t *testing.T) {
	n := newNode(t)
	if err := n.next(t); err == nil || err.Error() != "kubelet has not registered the CSI driver yet" {
		t.Errorf("at the start: %v", err)
	}
	kubelet := registerapi.NewRegistrationClient(dial(t, n.server.Registry))
	info, err := kubelet.GetInfo(t.Context(), &registerapi.InfoRequest{})
	if err != nil || info.Type != "CSIPlugin" || info.Name != "csi.kubernetsn.io" || info.Endpoint != n.server.Endpoint || len(info.SupportedVersions) != 1 {
		t.Fatalf("got %v, %v", info, err)
	}
	about, err := n.client.NodeGetInfo(t.Context(), &csi.NodeGetInfoRequest{})
	if err != nil || about.NodeId != "node1" {
		t.Errorf("got %v, %v", about, err)
	}
	if _, err := kubelet.NotifyRegistrationStatus(t.Context(), &registerapi.RegistrationStatus{PluginRegistered: true}); err != nil {
		t.Fatal(err)
	}
	if err := n.next(t); err != nil {
		t.Errorf("after it was registered: %v", err)
	}
	// A kubelet that was restarted removes the socket or not; either way it finds one.
	testlab.Must(t, os.Remove(n.server.Registry))
	if err := n.next(t); err == nil {
		t.Error("well without a socket")
	}
	again := registerapi.NewRegistrationClient(dial(t, n.server.Registry))
	if _, err := again.NotifyRegistrationStatus(t.Context(), &registerapi.RegistrationStatus{Error: "no"}); err != nil {
		t.Fatal(err)
	}
	if err := n.next(t); err == nil || err.Error() != "kubelet did not register the CSI driver: no" {
		t.Errorf("after a refusal: %v", err)
	}
}

func TestServerServesUntilLeaveReturns(t *testing.T) {
	n := newNode(t)
	n.publish(t, "uid", "v")
	leaving := make(chan struct{})
	left := make(chan struct{})
	n.leave = func() {
		close(leaving)
		<-left
	}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		n.stop()
	}()
	<-leaving
	if _, err := registerapi.NewRegistrationClient(dial(t, n.server.Registry)).GetInfo(t.Context(), &registerapi.InfoRequest{}); err != nil {
		t.Errorf("kubelet was told that the driver is gone: %v", err)
	}
	n.unpublish(t, "uid", "v")
	n.checkClean(t)
	close(left)
	<-stopped
	for _, path := range []string{n.server.Registry, n.server.Endpoint} {
		left, err := os.ReadDir(filepath.Dir(path))
		if err != nil || len(left) > 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
	}
}

// An agent that was deleted by force may end after its successor has started.
func TestServerKeepsSocketsOfSuccessor(t *testing.T) {
	n := newNode(t)
	n.publish(t, "uid", "v")
	endBefore := n.stop
	paths := []string{n.server.Endpoint, n.server.Registry}
	before := []fs.FileInfo{awaitOther(t, paths[0], nil), awaitOther(t, paths[1], nil)}
	n.start(t)
	for i, path := range paths {
		awaitOther(t, path, before[i])
	}
	endBefore()
	if _, err := registerapi.NewRegistrationClient(dial(t, n.server.Registry)).GetInfo(t.Context(), &registerapi.InfoRequest{}); err != nil {
		t.Errorf("kubelet does not find the driver: %v", err)
	}
	n.client = csi.NewNodeClient(dial(t, n.server.Endpoint))
	n.unpublish(t, "uid", "v")
	n.checkClean(t)
}

// awaitOther waits until a path leads to a file that is another one than before.
func awaitOther(t *testing.T, path string, before fs.FileInfo) fs.FileInfo {
	t.Helper()
	return testlab.EventuallyValue(t, 10*time.Second, time.Millisecond, func() (fs.FileInfo, error) {
		if info, err := os.Lstat(path); err == nil && (before == nil || !os.SameFile(info, before)) {
			return info, nil
		}
		return nil, fmt.Errorf("%s is not another one", path)
	})
}

// A removed socket interrupts the driver for seconds, not until the agent restarts.
func TestServerRecreatesRemovedSocket(t *testing.T) {
	n := newNode(t)
	_ = n.next(t) // at the start
	testlab.Must(t, os.Remove(n.server.Endpoint))
	_ = n.next(t)
	n.client = csi.NewNodeClient(dial(t, n.server.Endpoint))
	n.publish(t, "uid", "v")
	n.unpublish(t, "uid", "v")
}

// Else kubelet would repeat it for ever, because the driver is gone.
func TestServerFinishesPendingCalls(t *testing.T) {
	n := newNode(t)
	n.publish(t, "uid", "v")
	asked, goOn := make(chan struct{}), make(chan struct{})
	n.daemon.removing = func() {
		close(asked)
		<-goOn
	}
	n.leave = func() { time.AfterFunc(100*time.Millisecond, func() { close(goOn) }) }
	answered := make(chan error, 1)
	go func() {
		_, err := n.client.NodeUnpublishVolume(t.Context(), &csi.NodeUnpublishVolumeRequest{VolumeId: "csi-uidv", TargetPath: n.target("uid", "v")})
		answered <- err
	}()
	<-asked
	n.stop()
	if err := <-answered; err != nil {
		t.Errorf("kubelet was answered: %v", err)
	}
	n.checkClean(t)
}

// It also may be told when nothing is offered to kubelet: at the start, or between two attempts to be registered.
func TestServerAlwaysCallsLeave(t *testing.T) {
	n := newNode(t)
	n.stop()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	left := 0
	n.server.Leave = func(context.Context) {
		left++
		if _, err := registerapi.NewRegistrationClient(dial(t, n.server.Registry)).GetInfo(t.Context(), &registerapi.InfoRequest{}); err != nil {
			t.Errorf("kubelet does not find the driver: %v", err)
		}
	}
	if err := n.server.Run(ctx); err != nil || left != 1 {
		t.Errorf("it left %d times, %v", left, err)
	}
}
