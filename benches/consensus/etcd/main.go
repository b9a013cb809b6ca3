// One client of etcd with the Mutex of its own package `concurrency`: takes the lock and gives it back as the script
// says, and tells since when, and until when, the session says that it is held. The arguments: servers, name, seconds
// of the session; or `server` and etcd's own: then it is a server.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.etcd.io/etcd/server/v3/etcdmain"
)

type Session = concurrency.Session

var (
	output sync.Mutex
	guard  sync.Mutex
	held   *Session
)

func say(what string, at int64, rest ...any) {
	output.Lock()
	defer output.Unlock()
	fmt.Println(append([]any{what, at}, rest...)...)
}

func now() int64 { return time.Now().UnixNano() }

func hold(session *Session) {
	guard.Lock()
	defer guard.Unlock()
	held = session
}

func isHeld() bool {
	guard.Lock()
	defer guard.Unlock()
	if held == nil {
		return false
	}
	select {
	case <-held.Done():
		return false
	default:
		return true
	}
}

// Asks each millisecond. An end is told as of the last time that it was held.
func watch() {
	valid, last := false, int64(0)
	for ; ; time.Sleep(time.Millisecond) {
		before, is := now(), isHeld()
		if is && !valid {
			say("valid", now())
		} else if !is && valid {
			say("invalid", last)
		}
		valid = is
		if is {
			last = before
		}
	}
}

// A call that fails is made again, in a session of its own if the last one ended.
func acquire(client *clientv3.Client, name string, ttl int, session *Session) (*Session, *concurrency.Mutex) {
	for ; ; time.Sleep(100 * time.Millisecond) {
		select {
		case <-session.Done():
			fresh, err := concurrency.NewSession(client, concurrency.WithTTL(ttl))
			if err != nil {
				say("error", now(), err)
				continue
			}
			session = fresh
		default:
		}
		mutex := concurrency.NewMutex(session, name)
		// The waiting ends with its session: else it waits in a place that it lost.
		err := mutex.Lock(session.Ctx())
		if err == nil {
			return session, mutex
		}
		say("error", now(), err)
	}
}

func main() {
	if os.Args[1] == "server" {
		etcdmain.Main(append([]string{"etcd"}, os.Args[2:]...))
		return
	}
	ttl, err := strconv.Atoi(os.Args[3])
	must(err)
	client, err := clientv3.New(clientv3.Config{Endpoints: strings.Split(os.Args[1], ","), DialTimeout: 20 * time.Second,
		DialKeepAliveTime: time.Duration(ttl) * time.Second / 3, DialKeepAliveTimeout: time.Duration(ttl) * time.Second / 3})
	must(err)
	session, err := concurrency.NewSession(client, concurrency.WithTTL(ttl))
	must(err)
	var mutex *concurrency.Mutex
	go watch()
	say("ready", now())
	for input := bufio.NewScanner(os.Stdin); input.Scan(); {
		if input.Text() == "acquire" {
			session, mutex = acquire(client, os.Args[2], ttl, session)
			hold(session)
			continue
		}
		hold(nil)
		release(mutex, time.Duration(ttl)*time.Second/3)
	}
}

// A call that fails is made again: by itself it waits for seven seconds for the answer of a leader that is gone.
func release(mutex *concurrency.Mutex, limit time.Duration) {
	for {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		err := mutex.Unlock(ctx)
		cancel()
		if err == nil {
			say("released", now())
			return
		}
		say("error", now(), err)
		time.Sleep(100 * time.Millisecond)
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
