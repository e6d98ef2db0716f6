# A statically linked Go program, and what the go command does there.
export PATH=$PATH:/usr/local/go/bin GOCACHE=$D/cache GOPATH=$D/path GOFLAGS=-mod=mod GOTOOLCHAIN=local GOPROXY=off CGO_ENABLED=0 GOTELEMETRY=off
mkdir module; cd module; go mod init example.org/one 2> /dev/null
cat > main.go <<'G'
package main

import ("fmt"; "os"; "path/filepath"; "sort"; "sync"; "syscall")

func main() {
	var wait sync.WaitGroup
	for i := 0; i < 16; i++ {
		i := i
		wait.Add(1)
		go func() {
			defer wait.Done()
			name := fmt.Sprintf("d/%02d", i)
			if err := os.WriteFile(name, make([]byte, 1000*i), 0o640); err != nil { panic(err) }
			if err := os.Rename(name, name+".moved"); err != nil { panic(err) }
		}()
	}
	wait.Wait()
	var sizes []int
	filepath.Walk("d", func(_ string, info os.FileInfo, _ error) error { sizes = append(sizes, int(info.Size())*btoi(!info.IsDir())); return nil })
	sort.Ints(sizes); fmt.Println(sizes)
	file, _ := os.OpenFile("log", os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	fmt.Fprintln(file, "one"); file.Seek(0, 0); var word string; fmt.Fscanln(file, &word); fmt.Println(word, file.Sync())
	fmt.Println(syscall.Flock(int(file.Fd()), syscall.LOCK_EX))
	memory, err := syscall.Mmap(int(file.Fd()), 0, 4, syscall.PROT_READ, syscall.MAP_SHARED); fmt.Println(string(memory[:3]), err)
	_, err = os.Stat("missing"); fmt.Println(err)
}

func btoi(b bool) int { if b { return 1 }; return 0 }
G
mkdir d; go build -o one . && ./one; ls d; file one | grep -o 'statically linked'; go vet ./... ; go run . | tail -n 1; cd ..; chmod -R u+w path 2> /dev/null; rm -rf cache path module
rm -rf $D/.config
