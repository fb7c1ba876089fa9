package org.apache.hadoop.fs;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermissions;
import org.apache.hadoop.fs.permission.FsPermission;

/**
 * The local file system without processes and without checksum files: Hadoop starts a `chmod` for every file it
 * makes, 5 ms each and two in every micro-batch. A LocalFileSystem, because Hadoop asks for one by its class.
 * Compiled by `javac --release 17`; the class files beside this source are what is used.
 */
public class QuickLocalFileSystem extends LocalFileSystem {
  public QuickLocalFileSystem() {
    super(new QuickRawFileSystem());
    setWriteChecksum(false);
    setVerifyChecksum(false);
  }
}

class QuickRawFileSystem extends RawLocalFileSystem {
  @Override
  public void setPermission(Path path, FsPermission permission) throws IOException {
    if (permission.getStickyBit()) {
      super.setPermission(path, permission);
      return;
    }
    Files.setPosixFilePermissions(
        pathToFile(path).toPath(), PosixFilePermissions.fromString(permission.toString()));
  }
}
