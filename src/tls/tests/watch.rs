//! Changes of content are told, whatever way the file came; other events are not.

use std::os::unix::fs::symlink;

use super::*;
use crate::tls::FileWatch;

async fn told(watch: &mut FileWatch) -> bool {
    tokio::time::timeout(PATIENCE, watch.changed()).await.is_ok()
}

#[tokio::test]
async fn a_file_written_in_place_is_told() {
    let folder = Folder::new();
    let path = folder.write("a", "one");
    let mut watch = FileWatch::new([path.clone()]);
    assert!(!watch.is_polling());
    replace(&path, "two, and longer");
    assert!(told(&mut watch).await);
}

#[tokio::test]
async fn a_file_replaced_by_renaming_is_told() {
    let folder = Folder::new();
    let path = folder.write("a", "one");
    let mut watch = FileWatch::new([path.clone()]);
    std::fs::rename(folder.write("a.new", "two"), &path).unwrap();
    assert!(told(&mut watch).await);
}

#[tokio::test]
async fn a_file_that_appears_and_one_that_goes_are_told() {
    let folder = Folder::new();
    let path = folder.path("a");
    let mut watch = FileWatch::new([path.clone()]);
    folder.write("a", "one");
    assert!(told(&mut watch).await, "appeared");
    std::fs::remove_file(&path).unwrap();
    assert!(told(&mut watch).await, "gone");
}

#[tokio::test]
async fn a_kubernetes_volume_that_swaps_its_folder_is_told() {
    let folder = Folder::new();
    for (version, content) in [("..2026_01", "one"), ("..2026_02", "two")] {
        std::fs::create_dir(folder.path(version)).unwrap();
        folder.write(&format!("{version}/tls.crt"), content);
    }
    symlink("..2026_01", folder.path("..data")).unwrap();
    symlink("..data/tls.crt", folder.path("tls.crt")).unwrap();
    let mut watch = FileWatch::new([folder.path("tls.crt")]);
    symlink("..2026_02", folder.path("..data_tmp")).unwrap();
    std::fs::rename(folder.path("..data_tmp"), folder.path("..data")).unwrap();
    assert!(told(&mut watch).await);
}

#[tokio::test]
async fn the_same_content_again_is_no_change() {
    let folder = Folder::new();
    let (path, other) = (folder.write("a", "one"), folder.write("b", "one"));
    let mut watch = FileWatch::new([path.clone(), other.clone()]);
    std::fs::rename(folder.write("a.new", "one"), &path).unwrap();
    assert!(!watch.look_now().await, "the same content");
    replace(&other, "two, and longer");
    assert!(watch.look_now().await);
    assert!(!watch.look_now().await, "told once");
}

#[tokio::test]
async fn a_wait_that_was_given_up_loses_nothing() {
    let folder = Folder::new();
    let path = folder.write("a", "one");
    let mut watch = FileWatch::new([path.clone()]);
    replace(&path, "two, and longer");
    // Shorter than the silence that is waited for.
    let given_up = tokio::time::timeout(Duration::from_millis(50), watch.changed()).await;
    assert!(given_up.is_err());
    assert!(told(&mut watch).await);
}

#[tokio::test]
async fn files_are_polled_where_folders_cannot_be_watched() {
    let folder = Folder::new();
    let watch = FileWatch::new([folder.path("absent/a")]);
    assert!(watch.is_polling());

    let path = folder.write("a", "one");
    let mut watch = FileWatch::polling([path.clone()], Duration::from_millis(10));
    assert!(watch.is_polling());
    replace(&path, "two, and longer");
    assert!(told(&mut watch).await);
}

#[tokio::test]
async fn the_files_of_agents_in_a_folder_are_told_and_others_not() {
    let folder = Folder::new();
    let agents = folder.path("conf.d");
    let mut watch = FileWatch::new([agents.clone()]);
    std::fs::create_dir(&agents).unwrap();
    assert!(told(&mut watch).await, "the folder appeared");
    folder.write("conf.d/a.yaml", "one");
    assert!(told(&mut watch).await, "a file came");
    folder.write("conf.d/a.yaml", "two");
    assert!(told(&mut watch).await, "it changed");
    folder.write("conf.d/note.txt", "one");
    folder.write("conf.d/.a.yaml.swp", "one");
    assert!(!watch.look_now().await, "no file of agents");
    std::fs::rename(agents.join("a.yaml"), agents.join("b.yaml")).unwrap();
    assert!(told(&mut watch).await, "it has another name");
    std::fs::remove_dir_all(&agents).unwrap();
    assert!(told(&mut watch).await, "all are gone");
}
