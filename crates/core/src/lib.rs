//! The file system: volumes, nodes, files, directories, checkpoints and collection.
