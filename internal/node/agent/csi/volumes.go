// SPDX-License-Identifier: Apache-2.0

package csi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// Volume is a published volume.
type Volume struct {
	ID        string `json:"id"`
	Target    string `json:"target"`
	UID       string `json:"uid"`
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
}

// name returns namespace and name of the pod.
func (v *Volume) name() string { return v.Namespace + "/" + v.Pod }

// Daemon manages pods' sockets in ktsnd.
type Daemon interface {
	// SocketAdd makes ktsnd listen for a pod, and sets the pod's name.
	SocketAdd(ctx context.Context, identity, path, name string) error
	// SocketDel removes the socket, even of a ktsnd that does not run any more.
	SocketDel(ctx context.Context, identity string) error
}

// Volumes creates pods' folders and mounts them.
type Volumes struct {
	// Dir is ktsnd's folder on the node (/run/ktsn).
	Dir string
	// Library is the libktsn.so that pods get.
	Library string
	Daemon  Daemon

	// closeMu protects closed; Publish holds it for reading.
	closeMu sync.RWMutex
	closed  bool

	mu sync.Mutex
	// locks has a lock for each pod that is being changed.
	locks map[string]*podLock
}

type podLock struct {
	sync.Mutex
	users int
}

// Files in a pod's folder.
const (
	socketName  = "app.sock"
	libraryName = "libktsn.so"
)

func (v *Volumes) podsDir() string { return filepath.Join(v.Dir, "pods") }

// PodDir returns the folder of a pod.
func (v *Volumes) PodDir(uid string) string { return filepath.Join(v.podsDir(), uid) }

// SocketPath returns the path of a pod's socket.
func (v *Volumes) SocketPath(uid string) string { return filepath.Join(v.PodDir(uid), socketName) }

// errClosed is returned after Close.
var errClosed = errors.New("this agent is ending; the next one on the node publishes the volume")

// Close stops publishing and waits for pending calls of Publish. Volumes can still be unpublished.
func (v *Volumes) Close() {
	v.closeMu.Lock()
	defer v.closeMu.Unlock()
	v.closed = true
}

// Publish creates a pod's folder and mounts it at the volume's target. On failure it undoes all steps.
func (v *Volumes) Publish(ctx context.Context, volume Volume) (err error) {
	v.closeMu.RLock()
	defer v.closeMu.RUnlock()
	if v.closed {
		return errClosed
	}
	defer v.lock(volume.UID)()
	others, err := v.others(volume.UID, volume.ID)
	if err != nil {
		return err
	}
	// Record first, so that the next agent knows the volume if this one is killed.
	if err := v.write(volume); err != nil {
		return err
	}
	// After a restart kubelet publishes existing volumes again: a running pod keeps its mount even on failure.
	success, err := isMounted(volume.Target)
	if err != nil {
		return err
	}
	defer func() {
		if !success {
			err = errors.Join(err, v.remove(context.WithoutCancel(ctx), volume, others))
		}
	}()
	if err := v.createPodDir(volume.UID); err != nil {
		return err
	}
	if err := v.Daemon.SocketAdd(ctx, volume.UID, v.SocketPath(volume.UID), volume.name()); err != nil {
		return fmt.Errorf("make ktsnd listen for the pod: %w", err)
	}
	if err := mountReadOnly(v.PodDir(volume.UID), volume.Target); err != nil {
		return err
	}
	success = true
	return nil
}

// Restore makes a restarted ktsnd listen for all pods. It continues after a failure.
func (v *Volumes) Restore(ctx context.Context) (count int, errs error) {
	volumes, errs := v.All()
	for _, volume := range volumes {
		if err := v.restore(ctx, volume); err != nil {
			errs = errors.Join(errs, fmt.Errorf("pod %s/%s: %w", volume.Namespace, volume.Pod, err))
			continue
		}
		count++
	}
	return count, errs
}

func (v *Volumes) restore(ctx context.Context, volume Volume) error {
	defer v.lock(volume.UID)()
	if _, err := v.read(volume.ID); errors.Is(err, fs.ErrNotExist) {
		return nil // unpublished meanwhile
	}
	if err := v.createPodDir(volume.UID); err != nil {
		return err
	}
	return v.Daemon.SocketAdd(ctx, volume.UID, v.SocketPath(volume.UID), volume.name())
}

// Unpublish undoes Publish.
func (v *Volumes) Unpublish(ctx context.Context, id, target string) error {
	volume, err := v.read(id)
	if errors.Is(err, fs.ErrNotExist) {
		// Never published, or already unpublished.
		return unmount(target)
	}
	if err != nil {
		return err
	}
	defer v.lock(volume.UID)()
	others, err := v.others(volume.UID, volume.ID)
	if err != nil {
		return err
	}
	return v.remove(ctx, *volume, others)
}

// remove unmounts first, so that the pod does not see an incomplete folder. The record goes last, and stays on failure.
func (v *Volumes) remove(ctx context.Context, volume Volume, others int) error {
	if err := unmount(volume.Target); err != nil {
		return err
	}
	if others == 0 {
		if err := v.removePod(ctx, volume.UID); err != nil {
			return err
		}
	}
	return v.erase(volume.ID)
}

// Sweep removes all volumes of a pod if gone returns true. It calls gone with the pod's lock, so that nothing is
// published for the pod in between.
func (v *Volumes) Sweep(ctx context.Context, uid string, gone func(context.Context) (bool, error)) error {
	defer v.lock(uid)()
	if isGone, err := gone(ctx); err != nil || !isGone {
		return err
	}
	volumes, err := v.All()
	if err != nil {
		return err
	}
	for _, volume := range volumes {
		if volume.UID != uid {
			continue
		}
		// Keep the folder until all volumes are removed.
		const others = 1
		if err := v.remove(ctx, volume, others); err != nil {
			return err
		}
	}
	return v.removePod(ctx, uid)
}

// removePod removes a pod's socket and folder.
func (v *Volumes) removePod(ctx context.Context, uid string) error {
	if err := v.Daemon.SocketDel(ctx, uid); err != nil {
		return fmt.Errorf("make ktsnd close the pod's socket: %w", err)
	}
	if err := os.RemoveAll(v.PodDir(uid)); err != nil {
		return fmt.Errorf("remove the pod's folder: %w", err)
	}
	return nil
}

// createPodDir creates the folder with the library.
func (v *Volumes) createPodDir(uid string) error {
	if err := v.createPodsDir(); err != nil {
		return err
	}
	dir := v.PodDir(uid)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("create the pod's folder: %w", err)
	}
	// Regardless of the umask: pods' users read it.
	if err := os.Chmod(dir, 0o755); err != nil {
		return fmt.Errorf("create the pod's folder: %w", err)
	}
	if err := v.putLibrary(filepath.Join(dir, libraryName)); err != nil {
		return fmt.Errorf("copy libktsn.so into the pod's folder: %w", err)
	}
	return nil
}

// createPodsDir creates the folder of all pods' folders for root only: a pod sees its own folder by a mount, and other
// users of the node must not reach the sockets, which pods' users may open.
func (v *Volumes) createPodsDir() error {
	dir := v.podsDir()
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		// It may exist with another mode.
		err = os.Chmod(dir, 0o700)
	}
	if err != nil {
		return fmt.Errorf("create the folder of the pods' folders: %w", err)
	}
	return nil
}

// lock locks a pod until the returned function is called.
func (v *Volumes) lock(uid string) (unlock func()) {
	v.mu.Lock()
	if v.locks == nil {
		v.locks = map[string]*podLock{}
	}
	lock := v.locks[uid]
	if lock == nil {
		lock = &podLock{}
		v.locks[uid] = lock
	}
	lock.users++
	v.mu.Unlock()
	lock.Lock()
	return func() {
		lock.Unlock()
		v.mu.Lock()
		defer v.mu.Unlock()
		if lock.users--; lock.users == 0 {
			delete(v.locks, uid)
		}
	}
}
