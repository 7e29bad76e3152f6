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

// Volume is what was published for a pod.
type Volume struct {
	ID        string `json:"id"`
	Target    string `json:"target"`
	UID       string `json:"uid"`
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
}

// name is what people call the pod.
func (v *Volume) name() string { return v.Namespace + "/" + v.Pod }

// Daemon is ktsnd, as far as volumes are concerned.
type Daemon interface {
	// SocketAdd has it listen for a pod, and tells it what people call the pod.
	SocketAdd(ctx context.Context, identity, path, name string) error
	// SocketDel also removes what a ktsnd that does not run any more has left.
	SocketDel(ctx context.Context, identity string) error
}

// Volumes makes pods' folders and mounts them.
type Volumes struct {
	// Dir is ktsnd's folder on the node (/run/ktsn).
	Dir string
	// Library is the file that pods find as libktsn.so.
	Library string
	Daemon  Daemon

	// gate is held, for reading, by what publishes; closed is its.
	gate   sync.RWMutex
	closed bool

	mu sync.Mutex
	// busy has a lock for each pod that is worked on.
	busy map[string]*podLock
}

type podLock struct {
	sync.Mutex
	users int
}

// Names of what is in a pod's folder.
const (
	socketName  = "app.sock"
	libraryName = "libktsn.so"
)

func (v *Volumes) podsDir() string { return filepath.Join(v.Dir, "pods") }

// PodDir is the folder of a pod.
func (v *Volumes) PodDir(uid string) string { return filepath.Join(v.podsDir(), uid) }

// SocketPath is where ktsnd listens for a pod.
func (v *Volumes) SocketPath(uid string) string { return filepath.Join(v.PodDir(uid), socketName) }

// errClosed says who publishes.
var errClosed = errors.New("this agent is ending; the next one on the node publishes the volume")

// Close has no volume be published any more, and waits for those that are half-way. What there is can still be removed.
func (v *Volumes) Close() {
	v.gate.Lock()
	defer v.gate.Unlock()
	v.closed = true
}

// Publish makes a pod's folder and mounts it at the volume's target. A step that fails undoes those before it.
func (v *Volumes) Publish(ctx context.Context, volume Volume) (err error) {
	v.gate.RLock()
	defer v.gate.RUnlock()
	if v.closed {
		return errClosed
	}
	defer v.lock(volume.UID)()
	others, err := v.others(volume.UID, volume.ID)
	if err != nil {
		return err
	}
	// Written first: an agent that is killed behind this line is followed by one that knows.
	if err := v.write(volume); err != nil {
		return err
	}
	// kubelet publishes anew what it has found after a restart: what a running pod has is left to it, whatever happens.
	success, err := isMounted(volume.Target)
	if err != nil {
		return err
	}
	defer func() {
		if !success {
			err = errors.Join(err, v.remove(context.WithoutCancel(ctx), volume, others))
		}
	}()
	if err := v.makePodDir(volume.UID); err != nil {
		return err
	}
	if err := v.Daemon.SocketAdd(ctx, volume.UID, v.SocketPath(volume.UID), volume.name()); err != nil {
		return fmt.Errorf("have ktsnd listen for the pod: %w", err)
	}
	if err := mountReadOnly(v.PodDir(volume.UID), volume.Target); err != nil {
		return err
	}
	success = true
	return nil
}

// Restore has a ktsnd that was started anew listen for all pods. What fails for one does not keep it from the others.
func (v *Volumes) Restore(ctx context.Context) (count int, all error) {
	volumes, all := v.All()
	for _, volume := range volumes {
		if err := v.restore(ctx, volume); err != nil {
			all = errors.Join(all, fmt.Errorf("pod %s/%s: %w", volume.Namespace, volume.Pod, err))
			continue
		}
		count++
	}
	return count, all
}

func (v *Volumes) restore(ctx context.Context, volume Volume) error {
	defer v.lock(volume.UID)()
	if _, err := v.read(volume.ID); errors.Is(err, fs.ErrNotExist) {
		return nil // unpublished meanwhile
	}
	if err := v.makePodDir(volume.UID); err != nil {
		return err
	}
	return v.Daemon.SocketAdd(ctx, volume.UID, v.SocketPath(volume.UID), volume.name())
}

// Unpublish removes what Publish made.
func (v *Volumes) Unpublish(ctx context.Context, id, target string) error {
	volume, err := v.read(id)
	if errors.Is(err, fs.ErrNotExist) {
		// Published by nobody, or unpublished already.
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

// remove unmounts first, so that the pod cannot reach what is taken apart; the record goes last, and stays if
// something else could not be removed.
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

// Sweep removes all that there is of a pod, if gone says that it is gone. That is asked when nobody else works on the pod,
// so nothing is published for it between the answer and the end of the removal.
func (v *Volumes) Sweep(ctx context.Context, uid string, gone func(context.Context) (bool, error)) error {
	defer v.lock(uid)()
	if is, err := gone(ctx); err != nil || !is {
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
		// The folder goes below, for all of them at once.
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
		return fmt.Errorf("have ktsnd close the pod's socket: %w", err)
	}
	if err := os.RemoveAll(v.PodDir(uid)); err != nil {
		return fmt.Errorf("remove the pod's folder: %w", err)
	}
	return nil
}

// makePodDir makes the folder with the library in it.
func (v *Volumes) makePodDir(uid string) error {
	if err := v.makePodsDir(); err != nil {
		return err
	}
	dir := v.PodDir(uid)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make the pod's folder: %w", err)
	}
	// Whatever the umask is: pods' users look into it.
	if err := os.Chmod(dir, 0o755); err != nil {
		return fmt.Errorf("make the pod's folder: %w", err)
	}
	if err := v.putLibrary(filepath.Join(dir, libraryName)); err != nil {
		return fmt.Errorf("put libktsn.so into the pod's folder: %w", err)
	}
	return nil
}

// makePodsDir makes the folder of all pods' folders, which is for root only: a pod sees its own folder by a mount of it, and
// other users of the node have no business with the sockets, whose mode lets pods' users in.
func (v *Volumes) makePodsDir() error {
	dir := v.podsDir()
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		// Also one that somebody else made.
		err = os.Chmod(dir, 0o700)
	}
	if err != nil {
		return fmt.Errorf("make the folder of the pods' folders: %w", err)
	}
	return nil
}

// lock keeps others from working on a pod until the returned function is called.
func (v *Volumes) lock(uid string) (unlock func()) {
	v.mu.Lock()
	if v.busy == nil {
		v.busy = map[string]*podLock{}
	}
	lock := v.busy[uid]
	if lock == nil {
		lock = &podLock{}
		v.busy[uid] = lock
	}
	lock.users++
	v.mu.Unlock()
	lock.Lock()
	return func() {
		lock.Unlock()
		v.mu.Lock()
		defer v.mu.Unlock()
		if lock.users--; lock.users == 0 {
			delete(v.busy, uid)
		}
	}
}
